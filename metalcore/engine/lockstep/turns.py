"""The loops in which simdgroups take turns between barriers (cuts.py).

    round.0:  the first simdgroup
    turn.0:   go on from where the last round ended
    turn.end.0, turn.next.0:  do all end at one barrier? the next one's turn
    round.end.0:  the stretch that begins at that barrier has loops of its own

A stretch is what runs from one barrier to the next. Those that share no code have loops of their own, in which LLVM
finds what is the same in each turn; those that do share one, which asks where to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from metalcore.engine.abi import APART_AT_BARRIERS
from metalcore.engine.ir import I32, I64, Block, Instr, is_barrier
from metalcore.engine.model import LANES

from .builder import Builder
from .cfg import reach
from .frame import ALL, FIRST, FIRST_THREAD, LAUNCH, OWN, SIMDGROUP, SIZE, of_launch
from .operands import Operand, constant

if TYPE_CHECKING:
    from .emitters import Emitters

Barrier = Instr | None  # None: the beginning of the kernel as a place to go on from, its end as one to get to
_ZERO = constant(I32, 0)


def ends_with_barrier(block: Block) -> bool:
    return len(block.instrs) > 1 and is_barrier(block.instrs[-2])


@dataclass
class Stretch:
    """What runs between barriers; several where they share code."""

    number: int
    starts: list[Barrier]
    blocks: set[Block]
    ends: set[Barrier] = field(default_factory=set)


class Turns:
    def __init__(self, at: Emitters) -> None:
        self.code, self.graph, self.plan = at.code, at.graph, at.plan
        # Homes of sums lie at addresses that are known at the top of a turn, the same for all code.
        self.is_one = bool(at.plan.homes)
        self._stretches: list[Stretch] | None = None
        self._carried = (SIMDGROUP, FIRST_THREAD, OWN, *(FIRST if at.plan.layout == "rows" else ()))

    def own(self, name: Operand) -> Operand:
        """What differs from one simdgroup to the next, where it is read: it changes with each turn."""
        if not self.plan.is_cut or self.is_one:
            return name
        return self.code.load(name.type, self.slot(name))

    def slot(self, name: Operand) -> Operand:
        return self.code.slot(("turn", name.text), name.type)

    def end_label(self, barrier: Barrier) -> str:
        return f"turn.end.{self._ending(barrier).number}"

    def round_end_label(self, barrier: Instr) -> str:
        return f"round.end.{self._ending(barrier).number}"

    def _ending(self, barrier: Barrier) -> Stretch:
        return next((stretch for stretch in self.stretches if barrier in stretch.ends), self.stretches[0])

    @property
    def stretches(self) -> list[Stretch]:
        if self._stretches is None:
            self._stretches = self._find_stretches()
        return self._stretches

    def _find_stretches(self) -> list[Stretch]:
        barriers = [block.instrs[-2] for block in self.graph.order if ends_with_barrier(block)]
        starts: list[tuple[Barrier, Block]] = [(None, self.graph.entry)]
        starts += [(barrier, barrier.block.succs[0]) for barrier in barriers if barrier.block is not None]
        found: list[Stretch] = []
        for barrier, start in starts:
            blocks = reach([start], lambda block: [] if ends_with_barrier(block) else block.succs)
            ends = {_end(block) for block in blocks if ends_with_barrier(block) or not block.succs}
            new = Stretch(0, [barrier], blocks, ends)
            for old in [old for old in found if self.is_one or old.blocks & blocks or None in old.ends & ends]:
                found.remove(old)
                new = Stretch(0, old.starts + new.starts, old.blocks | new.blocks, old.ends | new.ends)
            found.append(new)
        for number, stretch in enumerate(found):
            stretch.number = number
        return found

    # -- the loops ---------------------------------------------------------------------------------
    def beside(self, barrier: Barrier) -> list[Barrier]:
        """From where turns in the same loop go on."""
        return self._starting(barrier).starts

    def write(
        self,
        cut: Operand,
        kept: Operand,
        own_bytes: int,
        numbers: dict[Instr, int],
        entry: list[str],
        forget: Callable[[list[Barrier]], list[str]],
    ) -> Loops:
        """*entry*: what the code has at its top, in each turn where that depends on the simdgroup. *forget*: of a turn
        that goes on from one of these barriers."""
        top, bottom = Builder("%n"), Builder("%x")
        for stretch in self.stretches:
            self._begin(top, stretch, cut, kept, numbers, [*(entry if self.is_one else []), *forget(stretch.starts)])
        bottom.place("exit")
        bottom.store(_ZERO, cut)
        bottom.jump(self.end_label(None))
        for stretch in self.stretches:
            self._end(bottom, stretch, cut, own_bytes, numbers)
        bottom.place("apart")
        bottom.store(constant(I64, APART_AT_BARRIERS), bottom.gep(LAUNCH, of_launch("left_out")))
        bottom.jump("leave")
        bottom.place("leave")
        bottom.ret()
        return Loops(f"round.{self._starting(None).number}", top.text(), bottom.text())

    def _starting(self, barrier: Barrier) -> Stretch:
        return next(stretch for stretch in self.stretches if barrier in stretch.starts)

    def _begin(
        self, code: Builder, stretch: Stretch, cut: Operand, kept: Operand, numbers: dict[Instr, int], entry: list[str]
    ) -> None:
        n = stretch.number
        code.place(f"round.{n}")
        begin = code.load(I32, cut)
        for name in self._carried:
            code.store(kept if name is OWN else _ZERO, self.slot(name))
        code.jump(f"turn.{n}")
        code.place(f"turn.{n}")
        if self.is_one:
            for name in self._carried:
                code.as_(name).load(name.type, self.slot(name))
        code.lines += entry
        labels = {
            0 if start is None else numbers[start]: "turn.first" if start is None else f"cut.{numbers[start]}"
            for start in stretch.starts
            if start is None or start in numbers
        }
        _choose(code, begin, labels, "leave")

    def _end(self, code: Builder, stretch: Stretch, cut: Operand, own_bytes: int, numbers: dict[Instr, int]) -> None:
        n = stretch.number
        code.place(f"turn.end.{n}")
        if len(stretch.ends) > 1:  # nothing that was kept for one barrier may be used at another
            agreed = self.code.slot("agreed", I32)
            ended, before = code.load(I32, cut), code.load(I32, agreed)
            is_first = code.icmp("eq", code.load(I32, self.slot(SIMDGROUP)), 0)
            expected = code.select(is_first, ended, before)
            code.store(expected, agreed)
            code.cond_br(code.icmp("eq", ended, expected), f"turn.next.{n}", "apart", likely=True)
        else:
            code.jump(f"turn.next.{n}")
        code.place(f"turn.next.{n}")
        following = code.add(code.load(I32, self.slot(SIMDGROUP)), 1)
        code.store(following, self.slot(SIMDGROUP))
        code.store(code.mul(following, LANES), self.slot(FIRST_THREAD))
        code.store(code.gep(code.load(OWN.type, self.slot(OWN)), own_bytes), self.slot(OWN))
        if self.plan.layout == "rows":
            self._next_position(code)
        code.cond_br(code.icmp("ult", following, ALL), f"turn.{n}", f"round.end.{n}")
        code.place(f"round.end.{n}")
        labels = {
            numbers[end]: f"round.{self._starting(end).number}"
            for end in sorted((end for end in stretch.ends if end in numbers), key=numbers.__getitem__)
        }
        if None in stretch.ends:
            labels[0] = "leave"
        _choose(code, code.load(I32, cut), labels, "leave")

    def _next_position(self, code: Builder) -> None:
        """Of a simdgroup's first thread, from the one before: rows are whole simdgroups. Divisions take long."""
        x, y, z = (code.load(I32, self.slot(name)) for name in FIRST)
        column = code.add(x, LANES)
        is_row = code.icmp("eq", column, SIZE[0])
        row = code.add(y, code.zext(is_row, I32))
        is_plane = code.icmp("eq", row, SIZE[1])
        following = code.select(is_row, 0, column), code.select(is_plane, 0, row), code.add(z, code.zext(is_plane, I32))
        for name, position in zip(FIRST, following, strict=True):
            code.store(position, self.slot(name))


@dataclass(frozen=True)
class Loops:
    start: str  # label
    top: list[str]
    bottom: list[str]


def _end(block: Block) -> Barrier:
    return block.instrs[-2] if ends_with_barrier(block) else None


def _choose(code: Builder, number: Operand, labels: dict[int, str], none: str) -> None:
    """A jump by number; without looking at it where there is one label alone."""
    if len(labels) < 2:
        code.jump(next(iter(labels.values()), none))
        return
    (_, first), *others = labels.items()
    code.switch(number, first, dict(others))

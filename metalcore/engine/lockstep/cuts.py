"""Barriers without coroutines: where all simdgroups of a threadgroup meet at every barrier, they take turns.

The function runs a whole threadgroup. In each round every simdgroup runs from one barrier to the next; what it needs
later is kept in its own part of `kept`. What is the same for all simdgroups stays where it is.

    round:  for each simdgroup: go to where the last round ended
    cut:    keep what lives across; it is the next one's turn
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .cfg import reach
from .driver import first_position
from .ir import I1, VOID, Block, Function, Instr, is_barrier
from .live import Liveness
from .memory import APART_AT_BARRIERS, LAUNCH_LEFT_OUT, LAUNCH_STOP, WORKER_MEMORY
from .same import Same
from .shapes import LANES, Shapes

if TYPE_CHECKING:
    from .emitters import Emitters

MOST_SIMDGROUPS = 32
MOST_KEPT = 512 << 10  # bytes on the stack
_ALIGN = 64


def split_at_barriers(function: Function) -> None:
    """A barrier ends its block: all that lives across it then crosses blocks."""
    blocks: list[Block] = []
    for block in function.blocks:
        at, rest = block, list(block.instrs)
        blocks.append(at)
        at.instrs = []
        while rest:
            instr = rest.pop(0)
            instr.block = at
            at.instrs.append(instr)
            if is_barrier(instr):
                behind = Block(f"{block.name}.b{len(blocks)}")
                at.instrs.append(Instr("br", VOID, [], targets=[behind], block=at))
                at = behind
                blocks.append(at)
        if at is not block:  # phis know their sources
            for succ in at.succs:
                for phi in succ.phis():
                    phi.targets = [at if source is block else source for source in phi.targets]
    function.blocks = blocks
    function.link()


class Cuts:
    def __init__(self, at: Emitters) -> None:
        self.code, self.values, self.plan = at.code, at.values, at.plan
        self.numbers: dict[Instr, int] = {}
        self.places: dict[object, int] = {}  # of slots in a simdgroup's part of `kept`
        self.size = 0

    @property
    def same(self) -> Same:
        assert self.plan.same is not None  # where kernels are cut
        return self.plan.same

    def cut(self, barrier: Instr) -> None:
        """The end of a turn, and in F the beginning of the next: where lanes meet they are all in F."""
        number = self.numbers.setdefault(barrier, len(self.numbers) + 1)
        self.code.later(lambda: self._keep(number, barrier))
        self.code.emit(f"store i32 {number}, ptr {self.code.slot('cut', 'i32')}")
        self.code.jump("round.end" if barrier.block in self.same.once else "turn.end")
        if self.values.mask is not None:
            self.code.place(self.code.new_label("never"))
            return
        self.code.place(f"cut.{number}")
        self.code.later(lambda: self._get_back(number, barrier))
        self.values.forget()

    def _with_operands(self, values: Iterable[Instr]) -> set[Instr]:
        """Some values are computed again from their operands where they are read."""
        todo, found = list(values), set[Instr]()
        while todo:
            value = todo.pop()
            if value not in found:
                found.add(value)
                if self.values.may_wrap(value) or value.type is I1:
                    todo += [arg for arg in value.args if isinstance(arg, Instr)]
        return found

    def _living(self, barrier: Instr) -> set[Instr]:
        living = self._with_operands(self.plan.live.across(barrier))
        return {value for value in living if not self.same.is_kept(value)}

    def _changed(self, barrier: Instr) -> set[Instr]:
        """What lives across a barrier and may have been made since the last one: the rest is kept already."""
        assert barrier.block is not None
        since = reach([barrier.block], lambda block: [p for p in block.preds if not ends_with_barrier(p)])
        return {value for value in self._living(barrier) if value.block in since}

    def _needed(self, barrier: Instr) -> set[Instr]:
        """What is read until the next barrier, or kept again there."""
        assert barrier.block is not None
        blocks = reach([barrier.block.succs[0]], lambda block: [] if ends_with_barrier(block) else block.succs)
        read = {arg for b in blocks for i in b.instrs for arg in i.args if isinstance(arg, Instr)}
        read |= {phi for b in blocks for s in b.succs for phi in s.phis()}  # under masks lanes keep what they had
        needed = self._with_operands(read)
        for block in blocks:
            if ends_with_barrier(block):
                needed |= self._changed(block.instrs[-2])
        return needed & self._living(barrier)

    def _slots(self, values: set[Instr]) -> list[tuple[object, str, str]]:
        """Key, name and type."""
        slots = self.code.slots.items()
        return [(key, name, ty) for key, (name, ty) in slots if isinstance(key, tuple) and key[0] in values]

    def _place(self, key: object, ty: str) -> int:
        if key not in self.places:
            size = _bytes(ty)
            align = min(_ALIGN, size)
            self.places[key] = (self.size + align - 1) // align * align
            self.size = self.places[key] + size
        return self.places[key]

    def stack(self) -> int:
        return MOST_SIMDGROUPS * self.own

    @property
    def own(self) -> int:
        """Bytes of a simdgroup's part."""
        return (self.size + _ALIGN - 1) // _ALIGN * _ALIGN

    def _keep(self, number: int, barrier: Instr) -> list[str]:
        return [line for slot in self._slots(self._changed(barrier)) for line in self._copy(number, *slot, keeps=True)]

    def _get_back(self, number: int, barrier: Instr) -> list[str]:
        return [line for slot in self._slots(self._needed(barrier)) for line in self._copy(number, *slot, keeps=False)]

    def _copy(self, number: int, key: object, name: str, ty: str, keeps: bool) -> list[str]:
        """From a slot to its place in the simdgroup's part, or back."""
        value, place = f"%crossing.{number}.{self.code.unique()}", f"%place.{number}.{self.code.unique()}"
        source, target = (name, place) if keeps else (place, name)
        return [
            f"  {place} = getelementptr i8, ptr %own, i64 {self._place(key, ty)}",
            f"  {value} = load {ty}, ptr {source}",
            f"  store {ty} {value}, ptr {target}",
        ]

    def assemble(self, name: str, start: str, blank: list[str]) -> str:
        cut, agreed = self.code.slot("cut", "i32"), self.code.slot("agreed", "i32")
        lines = self.code.text()  # now all that is kept has its place
        own = self.own
        targets = " ".join(f"i32 {number}, label %cut.{number}" for number in self.numbers.values())
        return "\n".join(
            [
                f"define internal void @{name}({PARAMETERS}) #0 {{",
                "entry:",
                *self.code.alloca_lines,
                f"  %kept = alloca [{MOST_SIMDGROUPS * own} x i8], align {_ALIGN}",
                f"  %memory_at = getelementptr i8, ptr %Wk, i64 {WORKER_MEMORY}",
                "  %group_memory = load ptr, ptr %memory_at, !invariant.load !0",
                f"  %stop_at = getelementptr i8, ptr %L, i64 {LAUNCH_STOP}",
                "  %stop = load ptr, ptr %stop_at, !invariant.load !0",
                f"  store i32 0, ptr {cut}",
                "  br label %round",
                "round:",
                f"  %begin = load i32, ptr {cut}",
                "  br label %turn",
                "turn:",
                "  %sg = phi i32 [ 0, %round ], [ %sg.next, %turn.next ]",
                f"  %first_thread = mul i32 %sg, {LANES}",
                first_position(self.plan.layout),
                "  %sg.wide = zext i32 %sg to i64",
                f"  %own.at = mul i64 %sg.wide, {own}",
                "  %own = getelementptr i8, ptr %kept, i64 %own.at",
                *self.code.entry_lines,
                f"  switch i32 %begin, label %turn.first [ {targets} ]",
                "turn.first:",
                *blank,
                f"  br label %{start}",
                *lines,
                "exit:",
                f"  store i32 0, ptr {cut}",
                "  br label %turn.end",
                "turn.end:",  # nothing that was kept for one barrier may be used at another
                f"  %ended = load i32, ptr {cut}",
                f"  %ended.first = load i32, ptr {agreed}",
                "  %is_first = icmp eq i32 %sg, 0",
                "  %expected = select i1 %is_first, i32 %ended, i32 %ended.first",
                f"  store i32 %expected, ptr {agreed}",
                "  %agrees = icmp eq i32 %ended, %expected",
                "  br i1 %agrees, label %turn.next, label %apart, !prof !1",
                "apart:",
                f"  %left_out = getelementptr i8, ptr %L, i64 {LAUNCH_LEFT_OUT}",
                f"  store i64 {APART_AT_BARRIERS}, ptr %left_out",
                "  br label %leave",
                "turn.next:",
                "  %sg.next = add i32 %sg, 1",
                "  %sg.more = icmp ult i32 %sg.next, %all",
                "  br i1 %sg.more, label %turn, label %round.end",
                "round.end:",
                f"  %next = load i32, ptr {cut}",
                "  %is_over = icmp eq i32 %next, 0",
                "  br i1 %is_over, label %leave, label %round",
                "leave:",
                "  ret void",
                "}",
            ]
        )


def ends_with_barrier(block: Block) -> bool:
    return len(block.instrs) > 1 and is_barrier(block.instrs[-2])


PARAMETERS = "ptr %L, ptr %Wk, i32 %gx, i32 %gy, i32 %gz, i32 %w, i32 %h, i32 %d, i32 %all"


def _bytes(ty: str) -> int:
    """A power of two that a slot's vector fits in."""
    count, _, scalar = ty.strip("<>").partition(" x ") if ty.startswith("<") else ("1", "", ty)
    bits = {"ptr": 64, "float": 32, "half": 16, "double": 64}.get(scalar) or int(scalar[1:])
    return max(8, int(count) * max(8, bits) // 8)


def kept_bytes(live: Liveness, same: Same, barriers: list[Instr], shapes: Shapes) -> int:
    """About how much each simdgroup would keep."""
    values = {v for barrier in barriers for v in live.across(barrier) if not same.is_kept(v)}
    return sum(LANES * max(4, v.type.size) if shapes.get(v).varying else 8 for v in values)

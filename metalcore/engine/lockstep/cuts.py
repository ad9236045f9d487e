"""Barriers without coroutines: where all simdgroups of a threadgroup meet at every barrier, they take turns.

The function runs a whole threadgroup. In each round every simdgroup runs from one barrier to the next; what it needs
later is kept in its own part of `kept`. What is the same for all simdgroups stays where it is.

    round:  for each simdgroup: go to where the last round ended
    cut:    keep what lives across; it is the next one's turn
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from metalcore.engine.abi import APART_AT_BARRIERS

from .builder import Builder
from .cfg import reach
from .driver import first_position
from .frame import ALL, FIRST, FIRST_THREAD, GROUP, LAUNCH, SIMDGROUP, SIZE, WORKER, load_frame, of_launch, parameters
from .ir import I1, VOID, Block, Function, Instr, is_barrier
from .live import Liveness
from .operands import Operand, constant
from .same import Same
from .shapes import LANES, Shapes
from .types import I8, I32, I64, PTR, LLType, array

if TYPE_CHECKING:
    from .emitters import Emitters

MOST_SIMDGROUPS = 32
MOST_KEPT = 512 << 10  # bytes on the stack
_ALIGN = 64
_OWN = Operand("%own", PTR)  # a simdgroup's part of what is kept


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
        self.code.later(lambda: self._keep(barrier))
        self.code.store(constant(I32, number), self.code.slot("cut", I32))
        self.code.jump("round.end" if barrier.block in self.same.once else "turn.end")
        if self.values.mask is not None:
            self.code.place(self.code.new_label("never"))
            return
        self.code.place(f"cut.{number}")
        self.code.later(lambda: self._get_back(barrier))
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

    def _slots(self, values: set[Instr]) -> list[tuple[object, Operand, LLType]]:
        """Key, name and type."""
        slots = self.code.slots.items()
        return [(key, name, ty) for key, (name, ty) in slots if isinstance(key, tuple) and key[0] in values]

    def _place(self, key: object, ty: LLType) -> int:
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

    def _keep(self, barrier: Instr) -> list[str]:
        return [line for slot in self._slots(self._changed(barrier)) for line in self._copy(*slot, keeps=True)]

    def _get_back(self, barrier: Instr) -> list[str]:
        return [line for slot in self._slots(self._needed(barrier)) for line in self._copy(*slot, keeps=False)]

    def _copy(self, key: object, name: Operand, ty: LLType, keeps: bool) -> list[str]:
        """From a slot to its place in the simdgroup's part, or back."""
        code = Builder("%k", beside=self.code)
        place = code.gep(_OWN, self._place(key, ty))
        source, target = (name, place) if keeps else (place, name)
        code.store(code.load(ty, source), target)
        return code.text()

    def assemble(self, name: str, start: str, blank: list[str]) -> str:
        cut, agreed = self.code.slot("cut", I32), self.code.slot("agreed", I32)
        lines = self.code.text()  # now all that is kept has its place
        top, first, bottom = Builder("%h"), Builder("%n"), Builder("%x")
        begin = self._turns(top, cut)
        first.switch(begin, "turn.first", {number: f"cut.{number}" for number in self.numbers.values()})
        first.place("turn.first")
        enter = Builder()
        enter.jump(start)
        self._ends(top, bottom, cut, agreed)
        head = f"define internal void @{name}({parameters(LAUNCH, WORKER, *GROUP, *SIZE, ALL)}) #0 {{"
        around = [*self.code.alloca_lines, *top.text(), *self.code.entry.text(), *first.text(), *blank, *enter.text()]
        return "\n".join([head, "entry:", *around, *lines, *bottom.text(), "}"])

    def _turns(self, code: Builder, cut: Operand) -> Operand:
        """A round is a turn for each simdgroup. The barrier that they go on from."""
        kept = code.alloca(array(MOST_SIMDGROUPS * self.own, I8), _ALIGN)
        load_frame(code)
        code.store(constant(I32, 0), cut)
        code.jump("round")
        code.place("round")
        begin = code.load(I32, cut)
        code.jump("turn")
        code.place("turn")
        code.as_(SIMDGROUP).phi((constant(I32, 0), "round"))
        code.as_(FIRST_THREAD).mul(SIMDGROUP, LANES)
        first_position(code, self.plan.layout, SIMDGROUP, FIRST)
        place = code.mul(code.zext(SIMDGROUP, I64), self.own)
        code.as_(_OWN).gep(kept, place)
        return begin

    def _ends(self, top: Builder, code: Builder, cut: Operand, agreed: Operand) -> None:
        code.place("exit")
        code.store(constant(I32, 0), cut)
        code.jump("turn.end")
        code.place("turn.end")  # nothing that was kept for one barrier may be used at another
        ended, before = code.load(I32, cut), code.load(I32, agreed)
        expected = code.select(code.icmp("eq", SIMDGROUP, 0), ended, before)
        code.store(expected, agreed)
        code.cond_br(code.icmp("eq", ended, expected), "turn.next", "apart", likely=True)
        code.place("apart")
        code.store(constant(I64, APART_AT_BARRIERS), code.gep(LAUNCH, of_launch("left_out")))
        code.jump("leave")
        code.place("turn.next")
        following = code.add(SIMDGROUP, 1)
        top.edge(SIMDGROUP, following, "turn.next")
        code.cond_br(code.icmp("ult", following, ALL), "turn", "round.end")
        code.place("round.end")
        code.cond_br(code.icmp("eq", code.load(I32, cut), 0), "leave", "round")
        code.place("leave")
        code.ret()


def ends_with_barrier(block: Block) -> bool:
    return len(block.instrs) > 1 and is_barrier(block.instrs[-2])


def _bytes(ty: LLType) -> int:
    """A power of two that a slot's vector fits in."""
    return max(8, ty.length * max(8, ty.bits) // 8)


def kept_bytes(live: Liveness, same: Same, barriers: list[Instr], shapes: Shapes) -> int:
    """About how much each simdgroup would keep."""
    values = {v for barrier in barriers for v in live.across(barrier) if not same.is_kept(v)}
    return sum(LANES * max(4, v.type.size) if shapes.get(v).varying else 8 for v in values)

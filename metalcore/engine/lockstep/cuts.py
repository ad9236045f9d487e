"""Barriers without coroutines: where all simdgroups of a threadgroup meet at every barrier, they take turns.

The function runs a whole threadgroup. In each round every simdgroup runs from one barrier to the next (turns.py); what
it needs later is kept in its own part of `kept`. What is the same for all simdgroups stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from metalcore.engine.ir import FLOAT, I1, I8, I32, PTR, VOID, Block, Function, Instr, Type, Value, array, is_barrier
from metalcore.engine.model import LANES

from .builder import Builder
from .cfg import reach
from .externals import EXTERNALS, PREFIX
from .frame import ALL, GROUP, LAUNCH, OWN, SIZE, WORKER, load_frame, parameters
from .homes import HOME_BYTES, Home
from .live import Liveness
from .operands import Operand, constant
from .places import owners
from .same import Same
from .shapes import Shapes
from .turns import ends_with_barrier

if TYPE_CHECKING:
    from .emitters import Emitters

Slot = tuple[tuple[object, ...], Operand, Type]
MOST_KEPT = 1 << 20  # bytes on the stack
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
        self.at, self.code, self.values, self.graph, self.plan = at, at.code, at.values, at.graph, at.plan
        self.turns = at.turns
        self.numbers: dict[Instr, int] = {}
        self.places: dict[object, int] = {}  # of slots in a simdgroup's part of `kept`
        self.size = 0
        self._counted, self._own_slots = 0, dict[Instr, list[tuple[int, Slot]]]()
        self._owner_of: Mapping[object, Instr] | None = None
        self._early_values: dict[Block, set[Instr]] | None = None

    @property
    def same(self) -> Same:
        assert self.plan.same is not None  # where kernels are cut
        return self.plan.same

    def cut(self, barrier: Instr) -> None:
        """The end of a turn, and in F the beginning of the next: where lanes meet they are all in F."""
        number = self.numbers.setdefault(barrier, len(self.numbers) + 1)
        self.code.later(lambda: self._keep(self._changed(barrier)))
        self.code.later(lambda: self.at.asking.end(self._since(barrier)))
        self.code.store(constant(I32, number), self.code.slot("cut", I32))
        is_once = barrier.block in self.same.once
        self.code.jump(self.turns.round_end_label(barrier) if is_once else self.turns.end_label(barrier))
        if self.values.mask is not None:
            self.code.place(self.code.new_label("never"))
            return
        self.code.place(f"cut.{number}")
        self.code.later(lambda: self._forget(self._alive(self.turns.beside(barrier)), self._alive([barrier])))
        self.code.later(lambda: self._get_back(barrier))
        self._ask(barrier, number)
        self.values.forget()
        for value in self._positions(barrier):
            self.at.ids.thread_id(value, value.callee.removeprefix(PREFIX))

    def _ask(self, barrier: Instr, number: int) -> None:
        turned = f"turned.{number}"
        self.code.later(lambda: self.at.asking.ask_now(self._since(barrier), number, turned))
        self.code.place(turned)
        self.code.later(self.at.asking.begin)

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
        kept = {value for value in living if not self.same.is_kept(value) and value not in self.plan.homes}
        return {value for value in kept if not self._is_position(value)}

    def _is_position(self, value: Instr) -> bool:
        """Whether it is a thread's position, which takes less to compute again than to keep."""
        return (
            value.op == "call"
            and (external := EXTERNALS.get(value.callee)) is not None
            and external.emitter == "attribute"
            and not self.at.shapes.get(value).varying
        )

    def _positions(self, barrier: Instr) -> list[Instr]:
        """Those that are read until the next barrier."""
        living = self._with_operands(self.plan.live.across(barrier)) & self._read(barrier)
        own = [value for value in living if not self.same.is_kept(value) and self._is_position(value)]
        return sorted(own, key=lambda value: value.name)

    def _changed(self, barrier: Instr) -> set[Instr]:
        """What lives across a barrier and may have been made since the last one: the rest is kept already."""
        since = self._since(barrier)
        return {
            value
            for value in self._living(barrier)
            if value.block in since and not self._is_early(value, barrier) and not self._is_kept_on_edges(value)
        }

    def _since(self, barrier: Instr) -> set[Block]:
        """What may have run since the last barrier."""
        assert barrier.block is not None
        return reach([barrier.block], lambda block: [p for p in block.preds if not ends_with_barrier(p)])

    def _is_early(self, value: Instr, barrier: Instr) -> bool:
        """Is it made in front of the loop that a barrier stands in, and better kept there than in each round?"""
        assert value.block is not None and barrier.block is not None
        around, own = self.graph.loop_of[barrier.block], self.graph.loop_of[value.block]
        is_outside = around is not None and value.block not in around.blocks
        return is_outside and (own is None or barrier.block in own.blocks)

    def keep_early(self, block: Block) -> None:
        """The end of a block that makes such values. Behind a barrier another turn has begun: it has kept them."""
        if not ends_with_barrier(block):
            self.code.later(lambda: self._keep(self._early().get(block, set())))

    def _early(self) -> dict[Block, set[Instr]]:
        if self._early_values is None:
            self._early_values = {}
            for barrier in self.numbers:
                for value in self._living(barrier):
                    if self._is_early(value, barrier) and not self._is_kept_on_edges(value):
                        assert value.block is not None
                        self._early_values.setdefault(value.block, set()).add(value)
        return self._early_values

    def keep_phis(self, phis: list[Instr]) -> None:
        """On the way into a loop with barriers: what comes round it is where it was kept, and is not written again."""
        kept = {phi for phi in phis if self._is_kept_on_edges(phi)}
        if kept:
            self.code.later(lambda: self._keep(kept & self._lives_anywhere()))

    def _is_kept_on_edges(self, value: Instr) -> bool:
        assert value.block is not None
        loop = self.graph.loop_of[value.block]
        if value.op != "phi" or loop is None or loop.header is not value.block:
            return False
        return any(ends_with_barrier(block) for block in loop.blocks)

    def _lives_anywhere(self) -> set[Instr]:
        return {value for barrier in self.numbers for value in self._living(barrier)}

    def _needed(self, barrier: Instr) -> set[Instr]:
        """What is read until the next barrier, or kept again there."""
        needed = self._read(barrier)
        for block in _until_barriers(barrier):
            if ends_with_barrier(block):
                needed |= self._changed(block.instrs[-2])
        return needed & self._living(barrier)

    def _read(self, barrier: Instr) -> set[Instr]:
        blocks = _until_barriers(barrier)
        read = {arg for b in blocks for i in b.instrs for arg in i.args if isinstance(arg, Instr)}
        read |= {phi for b in blocks for s in b.succs for phi in s.phis()}  # under masks lanes keep what they had
        return self._with_operands(read)

    def _slots(self, values: set[Instr]) -> list[Slot]:
        """Key, name and type, in the order in which they were made."""
        slots = self._slots_of()
        own = [slot for value in values for slot in slots.get(value, ())]
        return [slot for _, slot in sorted(own, key=lambda numbered: numbered[0])]

    def _slots_of(self) -> dict[Instr, list[tuple[int, Slot]]]:
        """Of each value, with their numbers. Asked for when all code is written, hundreds of times."""
        if self._counted != len(self.code.slots):
            self._counted, self._own_slots = len(self.code.slots), {}
            for number, (key, (name, ty)) in enumerate(self.code.slots.items()):
                if not isinstance(key, tuple) or not isinstance(key[0], Instr):
                    continue
                if key[1] != "checked":  # that is on the way to another slot
                    self._own_slots.setdefault(key[0], []).append((number, (key, name, ty)))
        return self._own_slots

    def _place(self, key: tuple[object, ...], ty: Type) -> int:
        value, *form = key
        size = _bytes(ty)
        return self.room((self._owners().get(value, value), *form, size), size)

    def _owners(self) -> Mapping[object, Instr]:
        if self._owner_of is None:
            self._owner_of = owners(self._neighbours())
        return self._owner_of

    def _neighbours(self) -> dict[Instr, set[Instr]]:
        """What may still be needed of others when one of the kept values is written to its place."""
        kept = self._lives_anywhere()
        near: dict[Instr, set[Instr]] = {value: set() for value in kept}
        early = {value for values in self._early().values() for value in values}
        for barrier in self.numbers:
            living = self._living(barrier)
            for value in living:
                near[value] |= living
        for value in kept:
            assert value.block is not None
            if value in early:
                near[value] |= kept & self._with_operands(self.plan.live.out[value.block])
            if self._is_kept_on_edges(value):
                near[value] |= kept & self._with_operands([*self.plan.live.into[value.block], *value.block.phis()])
        return near

    def room(self, key: object, size: int) -> int:
        """Where in a simdgroup's part something of a power of two of bytes lies."""
        if key not in self.places:
            align = min(_ALIGN, size)
            self.places[key] = (self.size + align - 1) // align * align
            self.size = self.places[key] + size
        return self.places[key]

    def stack(self) -> int:
        return self.plan.most_simdgroups * self.own

    @property
    def own(self) -> int:
        """Bytes of a simdgroup's part."""
        return (self.size + _ALIGN - 1) // _ALIGN * _ALIGN

    def _keep(self, values: set[Instr]) -> list[str]:
        return [line for slot in self._slots(values) for line in self._copy(*slot, keeps=True)]

    def _get_back(self, barrier: Instr) -> list[str]:
        return [line for slot in self._slots(self._needed(barrier)) for line in self._copy(*slot, keeps=False)]

    def _alive(self, barriers: Iterable[Instr | None]) -> set[Instr]:
        return {v for b in barriers if b is not None for v in self._with_operands(self.plan.live.across(b))}

    def forget_all_but(self, barriers: Iterable[Instr | None]) -> list[str]:
        """A turn begins: nobody needs what another simdgroup had in slots of what lives across none of these."""
        held = {key[0] for key in self.code.slots if isinstance(key, tuple) and isinstance(key[0], Instr)}
        return self._forget(held, self._alive(barriers))

    def _forget(self, values: set[Instr], living: set[Instr]) -> list[str]:
        code = Builder("%k", beside=self.code)
        for key, (name, ty) in self.code.slots.items():
            value = key[0] if isinstance(key, tuple) else None
            if value in values and value not in living and ty.is_vector and value not in self.plan.homes:
                code.store(Operand("undef", ty), name)
        return code.text()

    def _copy(self, key: tuple[object, ...], name: Operand, ty: Type, keeps: bool) -> list[str]:
        """From a slot to its place in the simdgroup's part, or back."""
        code = Builder("%k", beside=self.code)
        own = OWN if self.turns.is_one else code.load(PTR, self.turns.slot(OWN))
        place = code.gep(own, self._place(key, ty))
        source, target = (name, place) if keeps else (place, name)
        value = code.load(ty, source)
        if keeps and isinstance(key[0], Instr) and key[0].op == "select" and ty is self.code.vec(FLOAT):
            # A choice between a new value and the one in its place would become a masked store, which is slow.
            value = code.intrinsic("arithmetic.fence", value)
        code.store(value, target)
        return code.text()

    def assemble(self, name: str, start: str, blank: list[str]) -> str:
        cut = self.code.slot("cut", I32)
        lines = self.code.text()  # now all that is kept has its place
        top, first = Builder("%h"), Builder()
        kept = top.alloca(array(self.stack(), I8), _ALIGN)
        load_frame(top)
        top.store(constant(I32, 0), cut)
        loops = self.turns.write(cut, kept, self.own, self.numbers, self.code.entry.text(), self.forget_all_but)
        if not self.turns.is_one:
            top.lines += self.code.entry.text()
        top.jump(loops.start)
        first.place("turn.first")
        first.lines += [*self._forget(self._alive(self.turns.beside(None)), set()), *self.at.asking.begin(), *blank]
        first.jump(start)
        head = f"define internal void @{name}({parameters(LAUNCH, WORKER, *GROUP, *SIZE, ALL)}) #0 {{"
        around = [*self.code.alloca_lines, *top.text(), *loops.top, *first.text()]
        return "\n".join([head, "entry:", *around, *lines, *loops.bottom, "}"])


def _until_barriers(barrier: Instr) -> set[Block]:
    """The blocks from one to the next."""
    assert barrier.block is not None
    return reach([barrier.block.succs[0]], lambda block: [] if ends_with_barrier(block) else block.succs)


def _bytes(ty: Type) -> int:
    """A power of two that a slot's vector fits in."""
    return max(8, ty.length * max(8, ty.bits) // 8)


def kept_bytes(live: Liveness, same: Same, barriers: list[Instr], shapes: Shapes, homes: Mapping[Value, Home]) -> int:
    """About how much each simdgroup would keep: what does not live at the same time shares its places."""
    most = 0
    for barrier in barriers:
        values = (value for value in live.across(barrier) if not same.is_kept(value) and value not in homes)
        most = max(most, sum(LANES * max(4, v.type.size) if shapes.get(v).varying else 8 for v in values))
    return HOME_BYTES * len(set(homes.values())) + most

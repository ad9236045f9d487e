"""Asking for memory before it is needed.

Processors' own prefetchers stop at the end of a page, and a processor that is busy with other things sees a load late.
So a long straight body asks a page ahead, and so do the loops of simdgroups that take turns (cuts.py), for what each
threadgroup has of its own. Where such a loop has barriers, as one that fills tiles, a load asks for what it reads in
the next round: the rows of a tile lie far apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import I64, Block, Const, Instr, Value, gep_terms

from .cfg import Loop
from .operands import Operand
from .streaming import CACHE_LINE
from .turns import ends_with_barrier

if TYPE_CHECKING:
    from .addresses import Address
    from .emitters import Emitters

_PAGE = 4096
_SAME = frozenset(["zext", "sext", "trunc", "freeze"])
_PLACES = ("__mc_threadgroup_position_in_grid", "__mc_thread_position_in_grid")
Growth = int | Operand | None  # from one round to the next; None where that is not known


class Fetching:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.graph, self.plan = at, at.code, at.values, at.graph, at.plan
        self._own: dict[Value, bool] = {}

    def ahead(self, where: Address, c: int, is_load: bool) -> Operand | None:
        """What to ask for beside chunk c, once in a cache line."""
        assert where.offsets is not None
        if c * self.code.width * where.size % CACHE_LINE:
            return None
        takes_turns = self.plan.is_cut or self.plan.sanitized
        step = _PAGE if self.plan.prefetch else self._step(where) if is_load and takes_turns else None
        if step is None or (isinstance(step, int) and abs(step) < CACHE_LINE):
            return None
        first = where.offsets[c * self.code.width]
        if isinstance(step, int):
            return self.at.addresses.pointer_at(where.base_of(c), first + step)
        return self.code.gep(self.at.addresses.pointer_at(where.base_of(c), first), step)

    def _step(self, where: Address) -> Growth:
        """How far ahead simdgroups that take turns look."""
        block = self.values.block
        assert block is not None
        own = self.graph.loop_of[block]
        is_buffer = all(root.kind == "buffer" for root in where.roots)
        if own is None or self.values.mask is not None or not is_buffer:
            return None
        loop: Loop | None = own
        while loop is not None and not any(ends_with_barrier(b) for b in loop.blocks):
            loop = loop.parent
        if loop is None:
            return _PAGE if self._is_own(where.pointer) else None
        if not self.plan.is_cut:
            return None
        return self._growth(where.pointer, loop, block)

    def _is_own(self, value: Value) -> bool:
        """Does it depend on which threadgroup it is?"""
        if not isinstance(value, Instr) or value in self._own:
            return self._own.get(value, False)
        self._own[value] = False  # for a phi that comes to itself
        is_place = value.op == "call" and value.callee in _PLACES
        self._own[value] = is_place or any(self._is_own(arg) for arg in value.args)
        return self._own[value]

    # -- from round to round -------------------------------------------------------------------------
    def _growth(self, value: Value, loop: Loop, block: Block) -> Growth:
        """Of a number or an address. Only what is the same for all simdgroups is read, and operands of the block's own
        instructions: both are at hand wherever simdgroups take turns."""
        if not isinstance(value, Instr) or value.block not in loop.blocks:
            return 0
        if value.op == "phi":
            return self._counted(value, loop) if value.block is loop.header else 0
        if value.op == "getelementptr":
            total = self._growth(value.args[0], loop, block)
            for scale, index in gep_terms(value):
                if not isinstance(index, int):
                    total = self._sum(total, self._product(self._growth(index, loop, block), scale))
            return total
        if value.op in _SAME:
            return self._growth(value.args[0], loop, block)
        if value.op not in ("add", "sub", "or", "mul", "shl"):
            return None
        a, b = (self._growth(arg, loop, block) for arg in value.args)
        if value.op in ("add", "or") or (value.op == "sub" and b == 0):
            return self._sum(a, b)
        if value.op == "sub" or (a != 0 and b != 0):
            return None
        if value.op == "shl":
            count = value.args[1].value if isinstance(value.args[1], Const) else None
            return None if count is None or b != 0 else self._product(a, 1 << count)
        grows, other = (a, value.args[1]) if b == 0 else (b, value.args[0])
        return self._product(grows, self._at_hand(other, value.block is block)) if grows != 0 else 0

    def _counted(self, phi: Instr, loop: Loop) -> Growth:
        after = next((a for a, b in zip(phi.args, phi.targets, strict=True) if b is loop.latch), None)
        if not isinstance(after, Instr) or after.op != "add" or after.args[0] is not phi:
            return None
        return self._at_hand(after.args[1], is_read=False)

    def _at_hand(self, value: Value, is_read: bool) -> Growth:
        """A number that does not change in the loop. *is_read*: by an instruction of this block."""
        if isinstance(value, Const):
            return value.value
        assert self.plan.same is not None and isinstance(value, Instr)
        if not (is_read or self.plan.same.is_kept(value)) or self.values.shape(value).varying:
            return None
        number = self.values.scalar(value)
        return number if number.type is I64 else self.code.zext(number, I64)

    def _sum(self, a: Growth, b: Growth) -> Growth:
        if a is None or b is None:
            return None
        if isinstance(a, int):
            return a + b if isinstance(b, int) else b if a == 0 else self.code.add(b, a)
        return a if isinstance(b, int) and b == 0 else self.code.add(a, b)

    def _product(self, a: Growth, b: Growth) -> Growth:
        if a is None or b is None:
            return None
        if isinstance(a, int):
            return a * b if isinstance(b, int) else b if a == 1 else self.code.mul(b, a)
        return a if isinstance(b, int) and b == 1 else self.code.mul(a, b)

"""Accesses of large kernels that all lanes make at one address, side by side: tested once, and made, together.

The parts of a `float2` are two loads, one behind the other. Each by itself takes a test and three blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from metalcore.engine.ir import Const, Instr, Type, Value, anchor_of, type_of

from .addresses import Address
from .operands import Operand
from .values import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters

_WRITES = frozenset(("store", "atomicrmw", "cmpxchg", "fence"))
_NEAR = 128  # bytes


class Together:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.plan = at, at.code, at.values, at.plan

    def made(self, instr: Instr) -> Operand | None:
        """What a load gave that was made with one before it; of a store its value."""
        return self.values.splats.get(("together", instr))

    def loads(self, instr: Instr, where: Address) -> Operand | None:
        """What a load of all lanes gives, with those that follow; None: it is made by itself."""
        found = [(instr, where), *self._beside(instr, where)] if self._takes(instr, where) else []
        if len(found) < 2:
            return None
        fast, slow, done = self._branch([each for _, each in found])
        self.code.place(fast)
        inside = [self.code.load(scalar_type(i.type), at.base, _align(i)) for i, at in found]
        self.code.jump(done)
        self.code.place(slow)
        outside = [self.at.outlined.uniform(i, at, scalar_type(i.type))[0] for i, at in found]
        self.code.jump(done)
        self.code.place(done)
        for (load, _), a, b in zip(found, inside, outside, strict=True):
            self.values.splats["together", load] = self.code.phi((a, fast), (b, slow))
        return self.made(instr)

    def stores(self, instr: Instr, where: Address) -> bool:
        """The same of stores; False: it is made by itself."""
        found = [(instr, where), *self._beside(instr, where)] if self._takes(instr, where) else []
        if len(found) < 2:
            return False
        values = [self.at.memory.last_lane_value(i.args[0]) for i, _ in found]
        fast, slow, done = self._branch([each for _, each in found])
        self.code.place(fast)
        for (store, at), value in zip(found, values, strict=True):
            self.code.store(value, at.base, _align(store))
        self.code.jump(done)
        self.code.place(slow)
        for (store, at), value in zip(found, values, strict=True):
            self.at.outlined.uniform(store, at, value.type, value)
        self.code.jump(done)
        self.code.place(done)
        for (store, _), value in zip(found, values, strict=True):
            self.values.splats["together", store] = value
        return True

    def _takes(self, instr: Instr, where: Address) -> bool:
        """Where a comparison with the bounds of one root is all of the test, and each lane has no part of its own."""
        if self.values.mask is not None or not self.plan.checked or self.plan.sanitized or not where.uniform:
            return False
        if where.private or not self.at.outlined.takes(instr, where):
            return False
        return self.at.inside.needs_bounds(where)

    def _beside(self, instr: Instr, where: Address) -> Iterator[tuple[Instr, Address]]:
        """Those that follow in the block, with nothing between that could be seen to move."""
        assert instr.block is not None
        anchor, start = anchor_of(_pointer(instr))
        rest = instr.block.instrs[instr.block.instrs.index(instr) + 1 : -1]
        between: set[Value] = set()
        for other in rest:
            if other.op == instr.op and not other.extra.get("atomic"):
                base, offset = anchor_of(_pointer(other))
                if base is anchor and abs(offset - start) <= _NEAR and self._is_one(other, between):
                    at = self.at.addresses.pointer_at(where.base, offset - start)
                    there = replace(where, pointer=_pointer(other), base=at, size=_type(other).size)
                    if self._takes(other, there):
                        yield other, there
                        continue
            if other.op in _WRITES or other.op == "call" or (instr.op == "store" and other.op == "load"):
                return
            between.add(other)

    def _is_one(self, other: Instr, between: set[Value]) -> bool:
        """Whether all lanes access one address, and what they store is known where the first one is made."""
        if not self.values.shape(_pointer(other)).uniform:
            return False
        if other.op == "load":
            return self.values.shape(other).uniform and not other.type.is_aggregate and other.type.kind != "vector"
        value = other.args[0]
        is_plain = not _type(other).is_aggregate and _type(other).kind != "vector"
        return is_plain and value not in between and (isinstance(value, Const) or self.values.shape(value).uniform)

    def _branch(self, places: list[Address]) -> list[str]:
        """Are all in bounds? Labels of what is done where they are, where they are not, and behind that."""
        (root,) = places[0].roots
        starts = [anchor_of(place.pointer)[1] for place in places]
        low = min(starts)
        span = max(start + place.size for start, place in zip(starts, places, strict=True)) - low
        first = self.code.ptrtoint(places[starts.index(low)].base)
        offset = self.code.sub(first, self.at.inside.root_number(root))
        labels = [self.code.new_label(name) for name in ("in", "out", "done")]
        test = self.code.icmp("ult", offset, self.at.inside.limit(root, span))
        self.code.cond_br(test, labels[0], labels[1], likely=True)
        return labels


def _pointer(instr: Instr) -> Value:
    return instr.args[0 if instr.op == "load" else 1]


def _type(instr: Instr) -> Type:
    return instr.type if instr.op == "load" else type_of(instr, "stored")


def _align(instr: Instr) -> int:
    return int(str(instr.extra.get("align", 1)))

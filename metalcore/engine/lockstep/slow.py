"""Accesses that failed their test: what the runtime is told, by way of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from metalcore.engine.ir import Instr, Type, array
from metalcore.engine.ir.types import I8, I32, I64, PTR, VOID
from metalcore.engine.model import LANES

from .addresses import Address
from .frame import FIRST_THREAD, LAUNCH, WORKER
from .operands import Given, Operand, constant
from .support import KEEPS

if TYPE_CHECKING:
    from .emitters import Emitters


class Slow:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.roots, self.plan = at, at.code, at.values, at.roots, at.plan

    def scratch(self, what: str, bytes_each: int) -> Operand:
        return self.code.slot(("scratch", what), array(LANES * bytes_each, I8), align=64)

    def spill_chunks(self, to: Operand, bytes_each: int, chunks: Sequence[Operand]) -> None:
        for c, name in enumerate(chunks):
            at = self.code.gep(to, c * self.code.width * bytes_each) if c else to
            self.code.store(name, at, min(64, self.code.width * bytes_each))

    def reload_chunk(self, source: Operand, ty: Type, bytes_each: int, c: int) -> Operand:
        at = self.code.gep(source, c * self.code.width * bytes_each) if c else source
        return self.code.load(self.code.vec(ty), at, min(64, self.code.width * bytes_each))

    def spill_addresses(self, where: Address) -> Operand:
        """The address of each lane, exactly."""
        addresses = self.scratch("addresses", 8)
        if where.offsets is not None and not where.bases and not self.values.may_wrap(where.pointer):
            table = Operand(self.plan.offset_table(where.offsets), PTR)
            self.code.call("mc.spread", VOID, where.base, table, addresses, how=KEEPS)
        else:
            self.spill_chunks(addresses, 8, [self.at.addresses.chunk(where, c) for c in range(self.code.count)])
        return addresses

    def call(self, instr: Instr, where: Address, kind: int, addresses: Operand, data: Operand, bits: Operand) -> None:
        """Hand an access to the runtime, which does what is in bounds and reports the rest."""
        if where.pointer not in self.roots.origins:
            self._call(instr, where, kind, addresses, data, bits)
            return
        left = bits
        *others, last = sorted(where.roots, key=str)
        for root in others:
            chunks = [self.at.inside.comes_from(where, root, c) for c in range(self.code.count)]
            own = self.code.and_(bits, self.code.bits(chunks))
            left = self.code.xor(left, own)
            self._call(instr, replace(where, roots=frozenset([root])), kind, addresses, data, own)
        self._call(instr, replace(where, roots=frozenset([last])), kind, addresses, data, left)

    def _call(self, instr: Instr, where: Address, kind: int, addresses: Operand, data: Operand, bits: Operand) -> None:
        site = self.plan.site(instr, where, kind)
        known = [r for r in sorted(where.roots, key=str) if r.kind != "unknown"]
        bounds = self.code.slot(("bounds", len(known) + 1), array(3 * len(known) + 3, I64))
        limits: list[tuple[Given, ...]] = []
        if len(known) != len(where.roots):
            limits.append((0, 0, 0))  # a lane that lies in none of them may be anywhere
        for root in known:
            low = self.at.inside.root_number(root)
            high = self.code.add(low, self.at.addresses.root_size(root))
            limits.append((low, high, self.plan.bounds.lane_stride(root)))
        for i, limit in enumerate(limits):
            for field, value in enumerate(limit):
                at = self.code.gep(bounds, 3 * i + field, I64)
                self.code.store(value if isinstance(value, Operand) else constant(I64, value), at)
        what = (constant(I32, number) for number in (site, where.size, kind))
        count = constant(I64, len(limits))
        given = (LAUNCH, WORKER, *what, bits, self.at.turns.own(FIRST_THREAD), addresses, count, bounds, data)
        self.code.call("mc.slow", VOID, *given, how=KEEPS)
        self.plan.uses_slow = True

"""Accesses lane by lane: gathers, scatters and atomics, checked where the mode asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.abi import ATOMIC, ATOMIC_LOAD
from metalcore.engine.ir import I8, I32, I64, PTR, VOID, Instr, Type, Value, integer
from metalcore.engine.model import LANES
from metalcore.errors import UnsupportedFeature

from .addresses import Address
from .operands import FALSE, NULL, TRUE, Operand, constant, zero
from .values import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters

Names = tuple[dict[Value, Operand], dict[tuple[Value, int], Operand], dict[tuple[str, object], Operand]]


class Lanes:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.plan = at, at.code, at.values, at.plan

    # -- saved names -------------------------------------------------------------------------------
    def snapshot(self) -> Names:
        return dict(self.values.scalars), dict(self.values.vectors), dict(self.values.splats)

    def restore(self, saved: Names) -> None:
        """Back to the names known at a branch: those of one side do not reach the other."""
        scalars, vectors, splats = saved
        self.values.scalars, self.values.vectors, self.values.splats = dict(scalars), dict(vectors), dict(splats)

    # -- pairs -------------------------------------------------------------------------------------
    def define_pair(self, instr: Instr, c: int) -> None:
        """Results that are pairs live as two values; their users are extractvalue instructions."""
        if instr in self.values.crossing:
            for e in (0, 1):
                self.values.store_vector((instr, "pair", e, c), self.values.pairs[instr, c][e])

    def pair_element(self, instr: Instr, e: int, c: int) -> Operand:
        found = self.values.pairs.get((instr, c))
        if found is not None:
            return found[e]
        return self.values.load_vector((instr, "pair", e, c), pair_type(instr, e))

    # -- lane-by-lane memory -----------------------------------------------------------------------
    def access_lanes(
        self,
        instr: Instr,
        pointer: Value,
        addresses: list[Operand],
        ty: Type,
        size: int,
        kind: int,
        values: list[Operand] | None,
        is_outside: bool = False,
    ) -> list[Operand]:
        """A gather or scatter of 32 addresses under the current mask, checked where the mode asks for it. *is_outside*:
        some are known to be out of bounds."""
        where = self.at.addresses.of(pointer, size)
        align = int(str(instr.extra.get("align", size if instr.op == "call" else 1)))
        mask = self.values.mask

        def direct() -> list[Operand]:
            out = []
            for c in range(self.code.count):
                m = mask[c] if mask is not None else None
                if values is None:
                    out.append(self.at.gathers.gather(addresses[c], ty, align, m))
                else:
                    self.at.gathers.scatter_lanes(addresses[c], values[c], align, m)
            return out

        if not self.plan.checked:
            return direct()
        if instr.op in ("load", "store") and self.plan.bounds.proves(pointer, size, where.roots):
            return direct()
        is_outlined = self.at.outlined.takes(instr, where)
        if is_outside and not is_outlined:
            return self._slow_lanes(instr, where, addresses, ty, kind, values, self.values.bits_aside())
        if is_outlined and (mask is not None or self.plan.calls_lanes):
            return self.at.outlined.access(instr, where, ty, align)
        inside = self.at.inside.lanes(where, addresses)
        if mask is not None:
            tests = []
            for c in range(self.code.count):
                idle = self.code.not_(mask[c])
                tests.append(self.code.or_(inside[c], idle))
        else:
            tests = inside
        ok = self.code.all(tests)
        fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
        bits = self.values.mask_bits()
        self.code.cond_br(ok, fast, slow, likely=True)
        saved = self.snapshot()
        self.code.place(fast)
        got = direct()
        for c, name in enumerate(got):
            self.code.keep(("gathered", ty, c), name)
        self.code.jump(done)
        self.restore(saved)
        self.code.place(slow)
        if is_outlined:
            got = self.at.outlined.slow(instr, where, ty)
        else:
            got = self._slow_lanes(instr, where, addresses, ty, kind, values, bits)
        for c, name in enumerate(got):
            self.code.keep(("gathered", ty, c), name)
        self.code.jump(done)
        self.restore(saved)
        self.code.place(done)
        if values is not None:
            return []
        return [self.code.load_slot(("gathered", ty, c), self.code.vec(ty)) for c in range(self.code.count)]

    def _slow_lanes(
        self,
        instr: Instr,
        where: Address,
        addresses: list[Operand],
        ty: Type,
        kind: int,
        values: list[Operand] | None,
        bits: Operand,
    ) -> list[Operand]:
        data, lanes = self.at.slow.scratch("data", 16), self.at.slow.scratch("addresses", 8)
        self.at.slow.spill_chunks(lanes, 8, addresses)
        if values is not None:
            self.at.slow.spill_chunks(data, where.size, values)
        self.at.slow.call(instr, where, kind, lanes, data, bits)
        if values is not None:
            return []
        return [self.at.slow.reload_chunk(data, ty, where.size, c) for c in range(self.code.count)]

    # -- atomics -----------------------------------------------------------------------------------
    def atomic(self, instr: Instr) -> None:
        """One lane after the other, in lane order: always makes progress."""
        operands = {"atomicrmw": [1], "cmpxchg": [1, 2], "store": [0], "load": []}[instr.op]
        pointer = instr.args[1] if instr.op == "store" else instr.args[0]
        if instr.op == "store":
            stored = instr.extra["stored"]
            assert isinstance(stored, Type)
            value_type = stored
        else:
            value_type = instr.type.items[0] if instr.op == "cmpxchg" else instr.type
        ty, size = scalar_type(value_type), value_type.size
        where = self.at.addresses.of(pointer, size)
        lanes = self.at.slow.spill_addresses(where)
        places = []
        for n, i in enumerate(operands):
            place = self.at.slow.scratch(f"operand{n}", 8)
            self.at.slow.spill_chunks(place, size, self.values.chunks(instr.args[i]))
            places.append(place)
        result, flags = self.at.slow.scratch("result", 8), self.at.slow.scratch("flags", 1)
        bits = self.code.bits(self.values.mask)
        if self.plan.checked:
            bits = self._atomic_bounds(instr, where, lanes, bits)
        loop, body, done = (self.code.new_label(x) for x in ("lanes", "lane", "lanes.done"))
        rest = self.code.slot("atomic.rest", I32)
        self.code.store(bits, rest)
        self.code.jump(loop)
        self.code.place(loop)
        left = self.code.load(I32, rest)
        more = self.code.icmp("ne", left, 0)
        self.code.cond_br(more, body, done)
        self.code.place(body)
        lane = self.code.intrinsic("cttz", left, TRUE)
        minus = self.code.sub(left, 1)
        self.code.store(self.code.and_(left, minus), rest)
        wide = self.code.zext(lane, I64)
        at = self.code.load(PTR, self.code.gep(lanes, wide, PTR))
        values = [self.code.load(ty, self.code.gep(p, wide, ty)) for p in places]
        spot = self.code.gep(result, wide, ty)
        if instr.op == "atomicrmw":
            old = self._rmw(str(instr.extra["rmw"]), value_type, at, values[0])
            self.code.store(old, spot)
        elif instr.op == "cmpxchg":
            pair = self.code.cmpxchg(at, values[0], values[1])
            self.code.store(self.code.extractvalue(pair, 0), spot)
            flag = self.code.zext(self.code.extractvalue(pair, 1), I8)
            self.code.store(flag, self.code.gep(flags, wide))
        elif instr.op == "store":
            self.code.store(values[0], at, size, atomic=True)
        else:
            self.code.store(self.code.load(ty, at, size, kind="atomic"), spot)
        self.code.jump(loop)
        self.code.place(done)
        if instr.op == "store" or not instr.name:
            return
        for c in range(self.code.count):
            name = self.at.slow.reload_chunk(result, ty, size, c)
            if instr.op == "cmpxchg":
                flag = self.at.slow.reload_chunk(flags, I8, 1, c)
                flag = self.code.icmp("ne", flag, zero(self.code.vec(I8)))
                self.values.pairs[instr, c] = (name, flag)
                if instr in self.values.crossing:
                    self.values.store_vector((instr, "pair", 0, c), name)
                    self.values.store_vector((instr, "pair", 1, c), flag)
            else:
                self.values.define_chunk(instr, c, name)

    def _rmw(self, op: str, ty: Type, at: Operand, value: Operand) -> Operand:
        if ty.kind in ("half", "bfloat"):
            raise UnsupportedFeature(f"atomic arithmetic on {ty.text}")
        return self.code.atomicrmw(op, at, value)

    def _atomic_bounds(self, instr: Instr, where: Address, lanes: Operand, bits: Operand) -> Operand:
        """Lanes out of bounds are reported and left out; their result is 0."""
        if any(r.kind == "unknown" for r in where.roots):
            return self._atomic_lookup(instr, where, lanes, bits)
        good_bits: Operand | None = None
        if where.offsets is not None and not where.bases:
            test = self.at.inside.holds(where)
            if test is None:
                return bits
            if where.uniform:
                good_bits = self.code.select(test, constant(I32, -1), 0)
        if good_bits is None:
            addresses = [self.at.slow.reload_chunk(lanes, PTR, 8, c) for c in range(self.code.count)]
            good_bits = self.code.bits([self.code.freeze(m) for m in self.at.inside.lanes(where, addresses)])
        good = self.code.and_(bits, good_bits)
        bad = self.code.icmp("ne", good, bits)
        slow, done = self.code.new_label("out"), self.code.new_label("done")
        self.code.cond_br(bad, slow, done, likely=False)
        self.code.place(slow)
        self._atomic_results(instr)
        self.at.slow.call(instr, where, ATOMIC, lanes, NULL, bits)
        self.code.jump(done)
        self.code.place(done)
        return good

    def _atomic_lookup(self, instr: Instr, where: Address, lanes: Operand, bits: Operand) -> Operand:
        """Pointers that were loaded from memory: the runtime looks each lane up and says which may go on."""
        self._atomic_results(instr)
        data, kind = self.at.slow.scratch("data", 16), ATOMIC_LOAD if instr.op == "load" else ATOMIC
        self._fill(data, 1, LANES * where.size)
        self.at.slow.call(instr, where, kind, lanes, data, bits)
        good = []
        for c in range(self.code.count):
            told = self.at.slow.reload_chunk(data, integer(8 * where.size), where.size, c)
            good.append(self.code.icmp("ne", told, zero(told.type)))
        return self.code.and_(bits, self.code.bits(good))

    def _atomic_results(self, instr: Instr) -> None:
        """What lanes that may not go on get."""
        result = self.at.slow.scratch("result", 8)
        self._fill(result, 0, LANES * 8)
        if instr.op == "cmpxchg":
            # A lane that may not exchange must not try for ever: it is told that it found what it expected.
            flags, expected = self.at.slow.scratch("flags", 1), self.at.slow.scratch("operand0", 8)
            self._fill(flags, 1, LANES)
            self.code.call("llvm.memcpy.p0.p0.i64", VOID, result, expected, constant(I64, LANES * 8), FALSE)

    def _fill(self, at: Operand, byte: int, size: int) -> None:
        self.code.call("llvm.memset.p0.i64", VOID, at, constant(I8, byte), constant(I64, size), FALSE)


def pair_type(instr: Instr, e: int) -> Type:
    return instr.type.items[0] if instr.type.kind == "array" else instr.type.items[e]

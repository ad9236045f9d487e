"""Accesses lane by lane: gathers, scatters and atomics, checked where the mode asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.errors import UnsupportedFeature

from .ir import Instr, Type, Value
from .memory import ATOMIC, ATOMIC_LOAD, Address
from .shapes import LANES
from .values import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters

Names = tuple[dict[Value, str], dict[tuple[Value, int], str], dict[tuple[str, object], str]]


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
                self.values.store_vector((instr, "pair", e, c), pair_type(instr, e), self.values.pairs[instr, c][e])

    def pair_element(self, instr: Instr, e: int, c: int) -> str:
        found = self.values.pairs.get((instr, c))
        if found is not None:
            return found[e]
        return self.values.load_vector((instr, "pair", e, c), pair_type(instr, e))

    # -- lane-by-lane memory -----------------------------------------------------------------------
    def access_lanes(
        self,
        instr: Instr,
        pointer: Value,
        addresses: list[str],
        ty: str,
        size: int,
        kind: int,
        values: list[str] | None,
    ) -> list[str]:
        """A gather or scatter of 32 addresses under the current mask, checked where the mode asks for it."""
        where = self.at.memory.address(pointer, size)
        align = int(str(instr.extra.get("align", size if instr.op == "call" else 1)))
        mask = self.values.mask

        def direct() -> list[str]:
            out = []
            for c in range(self.code.count):
                m = mask[c] if mask is not None else None
                if values is None:
                    out.append(self.at.gathers.gather(addresses[c], ty, align, m))
                else:
                    self.at.gathers.scatter_lanes(addresses[c], values[c], ty, align, m)
            return out

        if not self.plan.checked:
            return direct()
        if instr.op in ("load", "store") and self.plan.bounds.proves(pointer, size, where.roots):
            return direct()
        inside = self.at.memory.inside_lanes(where, addresses)
        if mask is not None:
            tests = []
            for c in range(self.code.count):
                idle = self.code.temp(f"xor {self.code.vec('i1')} {mask[c]}, splat (i1 true)")
                tests.append(self.code.temp(f"or {self.code.vec('i1')} {inside[c]}, {idle}"))
        else:
            tests = inside
        ok = self.code.all(tests)
        fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
        bits = self.code.bits(mask)
        self.code.emit(f"br i1 {ok}, label %{fast}, label %{slow}, !prof !1")
        saved = self.snapshot()
        self.code.place(fast)
        got = direct()
        for c, name in enumerate(got):
            self.code.store_slot(("gathered", ty, c), self.code.vec(ty), name)
        self.code.jump(done)
        self.restore(saved)
        self.code.place(slow)
        data, lanes = self.at.memory.scratch("data", 16), self.at.memory.scratch("addresses", 8)
        self.at.memory.spill_chunks(lanes, "ptr", 8, addresses)
        if values is not None:
            self.at.memory.spill_chunks(data, ty, size, values)
        self.at.memory.call_slow(instr, where, kind, lanes, data, bits)
        if values is None:
            for c in range(self.code.count):
                self.code.store_slot(
                    ("gathered", ty, c), self.code.vec(ty), self.at.memory.reload_chunk(data, ty, size, c)
                )
        self.code.jump(done)
        self.restore(saved)
        self.code.place(done)
        if values is not None:
            return []
        return [self.code.load_slot(("gathered", ty, c), self.code.vec(ty)) for c in range(self.code.count)]

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
        where = self.at.memory.address(pointer, size)
        lanes = self.at.memory.spill_addresses(where)
        places = []
        for n, i in enumerate(operands):
            place = self.at.memory.scratch(f"operand{n}", 8)
            self.at.memory.spill_chunks(place, ty, size, self.values.chunks(instr.args[i]))
            places.append(place)
        result, flags = self.at.memory.scratch("result", 8), self.at.memory.scratch("flags", 1)
        bits = self.code.bits(self.values.mask)
        if self.plan.checked:
            bits = self._atomic_bounds(instr, where, lanes, bits)
        loop, body, done = (self.code.new_label(x) for x in ("lanes", "lane", "lanes.done"))
        rest = self.code.slot("atomic.rest", "i32")
        self.code.emit(f"store i32 {bits}, ptr {rest}")
        self.code.jump(loop)
        self.code.place(loop)
        left = self.code.temp(f"load i32, ptr {rest}")
        more = self.code.temp(f"icmp ne i32 {left}, 0")
        self.code.emit(f"br i1 {more}, label %{body}, label %{done}")
        self.code.place(body)
        self.code.need("declare i32 @llvm.cttz.i32(i32, i1 immarg)")
        lane = self.code.temp(f"call i32 @llvm.cttz.i32(i32 {left}, i1 true)")
        minus = self.code.temp(f"sub i32 {left}, 1")
        self.code.emit(f"store i32 {self.code.temp(f'and i32 {left}, {minus}')}, ptr {rest}")
        wide = self.code.temp(f"zext i32 {lane} to i64")
        at = self.code.temp(f"load ptr, ptr {self.code.temp(f'getelementptr ptr, ptr {lanes}, i64 {wide}')}")
        values = [
            self.code.temp(f"load {ty}, ptr {self.code.temp(f'getelementptr {ty}, ptr {p}, i64 {wide}')}")
            for p in places
        ]
        spot = self.code.temp(f"getelementptr {ty}, ptr {result}, i64 {wide}")
        if instr.op == "atomicrmw":
            old = self._rmw(str(instr.extra["rmw"]), value_type, at, values[0])
            self.code.emit(f"store {ty} {old}, ptr {spot}")
        elif instr.op == "cmpxchg":
            pair = self.code.temp(f"cmpxchg ptr {at}, {ty} {values[0]}, {ty} {values[1]} monotonic monotonic")
            self.code.emit(f"store {ty} {self.code.temp(f'extractvalue {{ {ty}, i1 }} {pair}, 0')}, ptr {spot}")
            flag = self.code.temp(f"extractvalue {{ {ty}, i1 }} {pair}, 1")
            flag = self.code.temp(f"zext i1 {flag} to i8")
            self.code.emit(f"store i8 {flag}, ptr {self.code.temp(f'getelementptr i8, ptr {flags}, i64 {wide}')}")
        elif instr.op == "store":
            self.code.emit(f"store atomic {ty} {values[0]}, ptr {at} monotonic, align {size}")
        else:
            self.code.emit(
                f"store {ty} {self.code.temp(f'load atomic {ty}, ptr {at} monotonic, align {size}')}, ptr {spot}"
            )
        self.code.jump(loop)
        self.code.place(done)
        if instr.op == "store" or not instr.name:
            return
        for c in range(self.code.count):
            name = self.at.memory.reload_chunk(result, ty, size, c)
            if instr.op == "cmpxchg":
                flag = self.at.memory.reload_chunk(flags, "i8", 1, c)
                flag = self.code.temp(f"icmp ne {self.code.vec('i8')} {flag}, zeroinitializer")
                self.values.pairs[instr, c] = (name, flag)
                if instr in self.values.crossing:
                    self.values.store_vector((instr, "pair", 0, c), value_type, name)
                    self.values.store_vector((instr, "pair", 1, c), instr.type.items[1], flag)
            else:
                self.values.define_chunk(instr, c, name)

    def _rmw(self, op: str, ty: Type, at: str, value: str) -> str:
        if ty.kind in ("half", "bfloat"):
            raise UnsupportedFeature(f"atomic arithmetic on {ty.text}")
        return self.code.temp(f"atomicrmw {op} ptr {at}, {ty.text} {value} monotonic")

    def _atomic_bounds(self, instr: Instr, where: Address, lanes: str, bits: str) -> str:
        """Lanes out of bounds are reported and left out; their result is 0."""
        if any(r.kind == "unknown" for r in where.roots):
            return self._atomic_lookup(instr, where, lanes, bits)
        if where.offsets is not None and not where.bases:
            test = self.at.memory.inside(where)
            if test is None:
                return bits
            good_bits = self.code.temp(f"select i1 {test}, i32 -1, i32 0") if where.uniform else ""
        else:
            good_bits = ""
        if not good_bits:
            addresses = [self.at.memory.reload_chunk(lanes, "ptr", 8, c) for c in range(self.code.count)]
            good_bits = self.code.bits(
                [
                    self.code.temp(f"freeze {self.code.vec('i1')} {m}")
                    for m in self.at.memory.inside_lanes(where, addresses)
                ]
            )
        good = self.code.temp(f"and i32 {bits}, {good_bits}")
        bad = self.code.temp(f"icmp ne i32 {good}, {bits}")
        slow, done = self.code.new_label("out"), self.code.new_label("done")
        self.code.emit(f"br i1 {bad}, label %{slow}, label %{done}, !prof !2")
        self.code.place(slow)
        self._atomic_results(instr)
        self.at.memory.call_slow(instr, where, ATOMIC, lanes, "null", bits)
        self.code.jump(done)
        self.code.place(done)
        return good

    def _atomic_lookup(self, instr: Instr, where: Address, lanes: str, bits: str) -> str:
        """Pointers that were loaded from memory: the runtime looks each lane up and says which may go on."""
        self._atomic_results(instr)
        data, kind = self.at.memory.scratch("data", 16), ATOMIC_LOAD if instr.op == "load" else ATOMIC
        self.code.emit(f"call void @llvm.memset.p0.i64(ptr {data}, i8 1, i64 {LANES * where.size}, i1 false)")
        self.at.memory.call_slow(instr, where, kind, lanes, data, bits)
        good = []
        for c in range(self.code.count):
            told = self.at.memory.reload_chunk(data, f"i{8 * where.size}", where.size, c)
            good.append(self.code.temp(f"icmp ne {self.code.vec(f'i{8 * where.size}')} {told}, zeroinitializer"))
        return self.code.temp(f"and i32 {bits}, {self.code.bits(good)}")

    def _atomic_results(self, instr: Instr) -> None:
        """What lanes that may not go on get."""
        result = self.at.memory.scratch("result", 8)
        self.code.emit(f"call void @llvm.memset.p0.i64(ptr {result}, i8 0, i64 {LANES * 8}, i1 false)")
        if instr.op == "cmpxchg":
            # A lane that may not exchange must not try for ever: it is told that it found what it expected.
            flags, expected = self.at.memory.scratch("flags", 1), self.at.memory.scratch("operand0", 8)
            self.code.emit(f"call void @llvm.memset.p0.i64(ptr {flags}, i8 1, i64 {LANES}, i1 false)")
            self.code.emit(f"call void @llvm.memcpy.p0.p0.i64(ptr {result}, ptr {expected}, i64 {LANES * 8}, i1 false)")
            self.code.need("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1 immarg)")
        self.code.need("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)")


def pair_type(instr: Instr, e: int) -> Type:
    return instr.type.items[0] if instr.type.kind == "array" else instr.type.items[e]

"""Loads, stores and their bounds: addresses as a scalar, as a scalar plus a pattern, or lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .bounds import FAR, SMALL_BITS
from .ir import Global, Instr, Type, Value, gep_terms
from .roots import Root
from .shapes import LANE, LANES, ZERO
from .streaming import CACHE_LINE, Row
from .values import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters


# Offsets into the structs of runtime/native/abi.h.
LAUNCH_SIZES, LAUNCH_TG_OFFSET, LAUNCH_TG_SIZE, LAUNCH_STOP, LAUNCH_SLOW = 248, 532, 656, 784, 792
LAUNCH_GRID, LAUNCH_GROUPS, LAUNCH_GROUP, LAUNCH_GROW, LAUNCH_LEFT_OUT = 496, 508, 520, 800, 928
APART_AT_BARRIERS = 2  # enum mc_left_out
LAUNCH_REPORT = 888
WORKER_MEMORY, WORKER_FRAME_CUR, WORKER_FRAME_END, WORKER_GROUP_POS = 8, 16, 24, 32
LOAD, STORE, ATOMIC, ATOMIC_LOAD = 0, 1, 2, 3
SLOTS = 31  # of buffers, and of threadgroup memory, in mc_launch
_PAGE = 4096


@dataclass
class Address:
    """Where a memory instruction goes. `offsets` is None where each lane has an address of its own."""

    pointer: Value
    base: str  # scalar pointer of lane offsets 0; "" for lane-by-lane addresses
    offsets: tuple[int, ...] | None
    roots: frozenset[Root]
    size: int
    lane_step: int = 0  # added per lane to lane-by-lane addresses (interleaved private arrays)
    bases: tuple[str, ...] = ()  # one per chunk, where offsets count from the chunk's first lane

    @property
    def uniform(self) -> bool:
        return self.offsets == ZERO and not self.bases

    def base_of(self, c: int) -> str:
        return self.bases[c] if self.bases else self.base

    @property
    def private(self) -> bool:
        return all(r.kind == "private" for r in self.roots)


class Memory:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.roots, self.plan = at, at.code, at.values, at.roots, at.plan
        self.private_total = 0  # bytes of private arrays that lie behind a coroutine's frame

    # -- addresses ---------------------------------------------------------------------------------
    def root_base(self, root: Root) -> str:
        """Address of a root as a scalar, computed once at the top of the function."""
        key = (root, "base")
        if key not in self.code.entry_values:
            self.code.entry_values[key] = self._root_base(root)
        return self.code.entry_values[key]

    def _root_base(self, root: Root) -> str:
        if root.kind == "buffer":
            at = self.code.at_entry(f"getelementptr i8, ptr %L, i64 {8 * root.slot}")
            return self.code.at_entry(f"load ptr, ptr {at}, !invariant.load !0")
        if root.kind == "tgarg":
            at = self.code.at_entry(f"getelementptr i8, ptr %L, i64 {LAUNCH_TG_OFFSET + 4 * root.slot}")
            offset = self.code.at_entry(f"load i32, ptr {at}, !invariant.load !0")
            wide = self.code.at_entry(f"zext i32 {offset} to i64")
            return self.code.at_entry(f"getelementptr i8, ptr %group_memory, i64 {wide}")
        if root.kind == "shared":
            return self.code.at_entry(f"getelementptr i8, ptr %group_memory, i64 {self.plan.shared_offsets[root.name]}")
        if root.kind == "table":
            return root.name
        return self.private_base(self.roots.allocas[root])

    def root_size(self, root: Root) -> int | str:
        """Bytes that one lane may touch."""
        if root.kind == "buffer":
            key = (root, "size")
            if key not in self.code.entry_values:
                at = self.code.at_entry(f"getelementptr i8, ptr %L, i64 {LAUNCH_SIZES + 8 * root.slot}")
                self.code.entry_values[key] = self.code.at_entry(f"load i64, ptr {at}, !invariant.load !0")
            return self.code.entry_values[key]
        if root.kind == "tgarg":
            key = (root, "size")
            if key not in self.code.entry_values:
                at = self.code.at_entry(f"getelementptr i8, ptr %L, i64 {LAUNCH_TG_SIZE + 4 * root.slot}")
                size = self.code.at_entry(f"load i32, ptr {at}, !invariant.load !0")
                self.code.entry_values[key] = self.code.at_entry(f"zext i32 {size} to i64")
            return self.code.entry_values[key]
        if root in self.roots.interleave:
            return self.plan.bounds.private_bytes(root)  # lanes share rows
        extent = self.plan.bounds.extent(root)
        assert extent is not None
        return extent

    def global_address(self, value: Global) -> str:
        return self.root_base(Root("table" if value.constant else "shared", name=value.name))

    def private_base(self, value: Instr) -> str:
        root = Root("private", name=value.name)
        size = self.plan.bounds.private_bytes(root)
        if not self.plan.coroutine:
            return self.code.slot((value, "private"), f"[{size} x i8]", align=64)
        # LLVM does not see that vectors of pointers keep an alloca in use across a suspension: lay it behind the frame.
        key = (value, "private")
        if key not in self.code.entry_values:
            self.code.entry_values[key] = self.code.at_entry(
                f"getelementptr i8, ptr %private, i64 {self.private_total}"
            )
            self.private_total += (size + 127) // 128 * 128
        return self.code.entry_values[key]

    def compute_gep(self, instr: Instr) -> str:
        """The scalar form of a pointer: base plus the bases of its indices."""
        pointer = self.values.scalar(instr.args[0])
        times = LANES if any(r in self.roots.interleave for r in self.roots.get(instr)) else 1
        for scale, index in gep_terms(instr):
            scale *= times
            if isinstance(index, int):
                if index:
                    pointer = self.code.temp(f"getelementptr i8, ptr {pointer}, i64 {index * scale}")
                continue
            name = self.values.scalar(index)
            if index.type.bits < 64:
                name = self.code.temp(f"sext {index.type.text} {name} to i64")
            scaled = self.code.temp(f"mul i64 {name}, {scale}") if scale != 1 else name
            if times != 1:
                scaled = self.near_or_far("i64", index, scale, name, scaled)
            pointer = self.code.temp(f"getelementptr i8, ptr {pointer}, i64 {scaled}")
        return pointer

    def near_or_far(self, ty: str, index: Value, scale: int, name: str, scaled: str) -> str:
        """The offset in an interleaved array; far away from everything where scaling it by 32 lanes loses bits."""
        if not self.plan.checked or self.plan.bounds.is_small(index, scale):
            return scaled
        half, whole = 1 << SMALL_BITS, 1 << (SMALL_BITS + 1)
        splat = (lambda n: f"splat (i64 {n})") if ty.startswith("<") else str
        moved = self.code.temp(f"add {ty} {name}, {splat(half)}")
        good = self.code.temp(f"icmp ult {ty} {moved}, {splat(whole)}")
        bit = ty.replace("i64", "i1")
        return self.code.temp(f"select {bit} {good}, {ty} {scaled}, {ty} {splat(FAR)}")

    def gep(self, instr: Instr, c: int | None) -> str:
        return self.compute_gep(instr) if c is None else self.gep_chunk(instr, c)

    def gep_chunk(self, instr: Instr, c: int) -> str:
        pointer = self.values.chunk(instr.args[0], c)
        uniform_base = self.values.shape(instr.args[0]).uniform
        base = f"ptr {self.values.scalar(instr.args[0])}" if uniform_base else f"{self.code.vec('ptr')} {pointer}"
        times = LANES if any(r in self.roots.interleave for r in self.roots.get(instr)) else 1
        total = ""
        constant = 0
        for scale, index in gep_terms(instr):
            scale *= times
            if isinstance(index, int):
                constant = index * scale
                continue
            name = self.values.chunk(index, c)
            if index.type.bits < 64:
                name = self.code.temp(f"sext {self.code.vec(index.type.text)} {name} to {self.code.vec('i64')}")
            given = name
            if scale != 1:
                name = self.code.temp(f"mul {self.code.vec('i64')} {name}, splat (i64 {scale})")
            if times != 1:
                name = self.near_or_far(self.code.vec("i64"), index, scale, given, name)
            total = self.code.temp(f"add {self.code.vec('i64')} {total}, {name}") if total else name
        if constant:
            total = (
                self.code.temp(f"add {self.code.vec('i64')} {total}, splat (i64 {constant})")
                if total
                else f"splat (i64 {constant})"
            )
        if not total:
            return pointer
        return self.code.temp(f"getelementptr i8, {base}, {self.code.vec('i64')} {total}")

    def address(self, pointer: Value, size: int) -> Address:
        roots = self.roots.of_address(pointer)
        shape = self.values.shape(pointer)
        unit = next((self.roots.interleave[r] for r in roots if r in self.roots.interleave), 0)
        if unit:
            if shape.uniform:
                return Address(pointer, self.values.scalar(pointer), tuple(lane * unit for lane in LANE), roots, size)
            return Address(pointer, "", None, roots, size, unit)
        if shape.offsets is not None:
            return Address(pointer, self.values.scalar(pointer), shape.offsets, roots, size)
        if all(r.kind not in ("private", "unknown") for r in roots):
            offsets = self.at.chunked.chunk_offsets(pointer)
            if offsets is not None and self.at.chunked.plain_chunks(offsets, size):
                bases = tuple(self.at.chunked.chunk_base(pointer, c) for c in range(self.code.count))
                return Address(pointer, "", offsets, roots, size, bases=bases)
        return Address(pointer, "", None, roots, size)

    def address_chunk(self, where: Address, c: int) -> str:
        if where.offsets is not None and self.is_interleaved(where):
            offsets = self.code.lane_constants("i64", where.offsets, c)
            return self.code.temp(f"getelementptr i8, ptr {where.base}, {self.code.vec('i64')} {offsets}")
        pointers = self.values.chunk(where.pointer, c)
        if where.lane_step:
            steps = self.code.lane_constants("i64", [lane * where.lane_step for lane in LANE], c)
            pointers = self.code.temp(
                f"getelementptr i8, {self.code.vec('ptr')} {pointers}, {self.code.vec('i64')} {steps}"
            )
        return pointers

    def is_interleaved(self, where: Address) -> bool:
        return any(r in self.roots.interleave for r in where.roots)

    # -- bounds ------------------------------------------------------------------------------------
    def limit(self, root: Root, span: int) -> str:
        """First byte offset that is too large for an access of `span` bytes."""
        size = self.root_size(root)
        if isinstance(size, int):
            return str(max(0, size + 1 - span))
        key = (root, "limit", span)
        if key not in self.code.entry_values:
            more = self.code.at_entry(f"add i64 {size}, 1")
            self.code.need("declare i64 @llvm.usub.sat.i64(i64, i64)")
            self.code.entry_values[key] = self.code.at_entry(f"call i64 @llvm.usub.sat.i64(i64 {more}, i64 {span})")
        return self.code.entry_values[key]

    def inside(self, where: Address) -> str | None:
        """Scalar test that every lane of a uniform or pattern access is in bounds; None where it surely is."""
        assert where.offsets is not None
        if any(r.kind == "unknown" for r in where.roots):
            return "false"
        if self.plan.bounds.proves(where.pointer, where.size, where.roots):
            return None
        return self.inside_record(where)

    def inside_record(self, where: Address) -> str:
        assert where.offsets is not None
        if any(r.kind == "unknown" for r in where.roots):
            return "false"
        parts = [(where.base, where.offsets, LANE)]
        if where.bases:
            slices = [slice(c * self.code.width, (c + 1) * self.code.width) for c in range(self.code.count)]
            parts = [(where.base_of(c), where.offsets[own], LANE[own]) for c, own in enumerate(slices)]
        tests = [self._range_inside(where, *part) for part in parts]
        total = tests[0]
        for test in [*tests[1:], *self.guards(where)]:
            total = self.code.temp(f"and i1 {total}, {test}")
        return total

    def _range_inside(self, where: Address, base: str, offsets: Sequence[int], lanes: Sequence[int]) -> str:
        """Do lanes at base + offset lie in the root they came from? Each lane has its own part of a private array."""
        origin = self.roots.origins.get(where.pointer)
        if origin is not None and not self.values.shape(origin).uniform:
            return "false"  # lane by lane
        number = ""
        result = ""
        for root in sorted(where.roots, key=str):
            stride = self.plan.bounds.lane_stride(root)
            own = [offset - lane * stride for offset, lane in zip(offsets, lanes, strict=True)]
            low, high = min(own), max(own)
            number = number or self.code.temp(f"ptrtoint ptr {base} to i64")
            first = self.code.temp(f"add i64 {number}, {low}") if low else number
            offset = self.code.temp(f"sub i64 {first}, {self.root_number(root)}")
            hit = self.code.temp(f"icmp ult i64 {offset}, {self.limit(root, high - low + where.size)}")
            hit = self.only_from(where, root, hit)
            result = self.code.temp(f"or i1 {result}, {hit}") if result else hit
        return result

    def only_from(self, where: Address, root: Root, hit: str, c: int | None = None) -> str:
        """A test of one root's bounds, for pointers that may come from several: true only where it is this one."""
        if where.pointer not in self.roots.origins:
            return hit
        own = self.comes_from(where, root, c)
        return self.code.temp(f"and {'i1' if c is None else self.code.vec('i1')} {hit}, {own}")

    def comes_from(self, where: Address, root: Root, c: int | None) -> str:
        origin, number = self.roots.origins[where.pointer], self.roots.number(root)
        if c is None:
            return self.code.temp(f"icmp eq i32 {self.values.scalar(origin)}, {number}")
        return self.code.temp(f"icmp eq {self.code.vec('i32')} {self.values.chunk(origin, c)}, splat (i32 {number})")

    def guards(self, where: Address) -> list[str]:
        """Scalar tests that the pattern of an access is one: see bounds.py."""
        return [] if self.plan.bounds.shows_wrap(where.pointer, where.roots) else self.pattern_guards(where)

    def pattern_guards(self, where: Address) -> list[str]:
        return self.at.chunked.chunk_guards(where.pointer) if where.bases else self.at.guards.wrap_guards(where.pointer)

    def inside_lanes(self, where: Address, addresses: list[str]) -> list[str]:
        """Lane by lane, a mask of those in bounds."""
        out = []
        for c in range(self.code.count):
            number = self.code.temp(f"ptrtoint {self.code.vec('ptr')} {addresses[c]} to {self.code.vec('i64')}")
            result = ""
            for root in sorted(where.roots, key=str):
                if root.kind == "unknown":
                    continue
                base = self.values.splat("i64", self.root_number(root))
                offset = self.code.temp(f"sub {self.code.vec('i64')} {number}, {base}")
                stride = self.plan.bounds.lane_stride(root)
                if stride:
                    starts = self.code.lane_constants("i64", [lane * stride for lane in LANE], c)
                    offset = self.code.temp(f"sub {self.code.vec('i64')} {offset}, {starts}")
                limit = self.limit(root, where.size)
                bound = f"splat (i64 {limit})" if limit.lstrip("-").isdigit() else self.values.splat("i64", limit)
                hit = self.code.temp(f"icmp ult {self.code.vec('i64')} {offset}, {bound}")
                hit = self.only_from(where, root, hit, c)
                result = self.code.temp(f"or {self.code.vec('i1')} {result}, {hit}") if result else hit
            out.append(result or "zeroinitializer")
        return out

    def root_number(self, root: Root) -> str:
        key = (root, "number")
        if key not in self.code.entry_values:
            base = self.root_base(root)
            self.code.entry_values[key] = self.code.at_entry(f"ptrtoint ptr {base} to i64")
        return self.code.entry_values[key]

    # -- slow path ---------------------------------------------------------------------------------
    def scratch(self, what: str, bytes_each: int) -> str:
        return self.code.slot(("scratch", what), f"[{LANES * bytes_each} x i8]", align=64)

    def spill_chunks(self, to: str, ty: str, bytes_each: int, chunks: list[str]) -> None:
        for c, name in enumerate(chunks):
            at = self.code.temp(f"getelementptr i8, ptr {to}, i64 {c * self.code.width * bytes_each}") if c else to
            self.code.emit(f"store {self.code.vec(ty)} {name}, ptr {at}, align {min(64, self.code.width * bytes_each)}")

    def reload_chunk(self, source: str, ty: str, bytes_each: int, c: int) -> str:
        at = self.code.temp(f"getelementptr i8, ptr {source}, i64 {c * self.code.width * bytes_each}") if c else source
        return self.code.temp(f"load {self.code.vec(ty)}, ptr {at}, align {min(64, self.code.width * bytes_each)}")

    def spill_addresses(self, where: Address) -> str:
        """The address of each lane, exactly."""
        addresses = self.scratch("addresses", 8)
        if where.offsets is not None and not where.bases and not self.values.may_wrap(where.pointer):
            self.code.emit(
                f"call void @mc.spread(ptr {where.base}, ptr {self.plan.offset_table(where.offsets)}, ptr {addresses})"
            )
        else:
            self.spill_chunks(addresses, "ptr", 8, [self.address_chunk(where, c) for c in range(self.code.count)])
        return addresses

    def call_slow(self, instr: Instr, where: Address, kind: int, addresses: str, data: str, bits: str) -> None:
        """Hand an access to the runtime, which does what is in bounds and reports the rest."""
        if where.pointer not in self.roots.origins:
            self._call_slow(instr, where, kind, addresses, data, bits)
            return
        left = bits
        *others, last = sorted(where.roots, key=str)
        for root in others:
            chunks = [self.comes_from(where, root, c) for c in range(self.code.count)]
            own = self.code.temp(f"and i32 {bits}, {self.code.bits(chunks)}")
            left = self.code.temp(f"xor i32 {left}, {own}")
            self._call_slow(instr, replace(where, roots=frozenset([root])), kind, addresses, data, own)
        self._call_slow(instr, replace(where, roots=frozenset([last])), kind, addresses, data, left)

    def _call_slow(self, instr: Instr, where: Address, kind: int, addresses: str, data: str, bits: str) -> None:
        site = self.plan.site(instr, where, kind)
        known = [r for r in sorted(where.roots, key=str) if r.kind != "unknown"]
        bounds = self.code.slot(("bounds", len(known) + 1), f"[{3 * len(known) + 3} x i64]")
        limits: list[tuple[object, ...]] = []
        if len(known) != len(where.roots):
            limits.append((0, 0, 0))  # a lane that lies in none of them may be anywhere
        for root in known:
            low = self.root_number(root)
            high = self.code.temp(f"add i64 {low}, {self.root_size(root)}")
            limits.append((low, high, self.plan.bounds.lane_stride(root)))
        for i, limit in enumerate(limits):
            for field, value in enumerate(limit):
                at = self.code.temp(f"getelementptr i64, ptr {bounds}, i64 {3 * i + field}")
                self.code.emit(f"store i64 {value}, ptr {at}")
        self.code.emit(
            f"call void @mc.slow(ptr %L, ptr %Wk, i32 {site}, i32 {where.size}, i32 {kind}, i32 {bits}, "
            f"i32 %first_thread, ptr {addresses}, i64 {len(limits)}, ptr {bounds}, ptr {data})"
        )
        self.plan.uses_slow = True

    # -- uniform accesses --------------------------------------------------------------------------
    def load_uniform(self, instr: Instr) -> str:
        where = self.address(instr.args[0], instr.type.size)
        ty = scalar_type(instr.type)
        align = instr.extra.get("align", 1)
        ok = self.inside(where) if self.plan.checked else None
        if ok is None:
            return self.code.temp(f"load {ty}, ptr {where.base}, align {align}")
        fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
        result = self.code.slot((instr, "checked"), ty)
        self.code.emit(f"br i1 {ok}, label %{fast}, label %{slow}, !prof !1")
        self.code.place(fast)
        value = self.code.temp(f"load {ty}, ptr {where.base}, align {align}")
        self.code.emit(f"store {ty} {value}, ptr {result}")
        self.code.jump(done)
        self.code.place(slow)
        data = self.scratch("data", 16)
        self.code.emit(f"store i128 0, ptr {data}")
        self.call_slow(instr, where, LOAD, self.spill_addresses(where), data, self.one_lane_bits())
        lane = self.first_lane()
        wide = self.code.temp(f"zext i32 {lane} to i64")
        at = self.code.temp(f"mul i64 {wide}, {where.size}")
        pointer = self.code.temp(f"getelementptr i8, ptr {data}, i64 {at}")
        value = self.code.temp(f"load {ty}, ptr {pointer}, align 1")
        self.code.emit(f"store {ty} {value}, ptr {result}")
        self.code.jump(done)
        self.code.place(done)
        return self.code.temp(f"load {ty}, ptr {result}")

    def first_lane(self) -> str:
        if self.values.mask is None:
            return "0"
        self.code.need("declare i32 @llvm.cttz.i32(i32, i1 immarg)")
        return self.code.temp(f"call i32 @llvm.cttz.i32(i32 {self.code.bits(self.values.mask)}, i1 false)")

    def one_lane_bits(self) -> str:
        """All lanes do the same: report it for the first one."""
        if self.values.mask is None:
            return "1"
        bits = self.code.bits(self.values.mask)
        minus = self.code.temp(f"sub i32 0, {bits}")
        return self.code.temp(f"and i32 {bits}, {minus}")

    def last_lane_value(self, value: Value) -> str:
        """Of lanes that store to one place, the last one wins."""
        temp, vec = self.code.temp, self.code.vec
        ty = scalar_type(value.type)
        if self.values.shape(value).uniform:
            return self.values.scalar(value)
        if self.values.mask is None:
            return temp(
                f"extractelement {vec(ty)} {self.values.chunk(value, self.code.count - 1)}, i64 {self.code.width - 1}"
            )
        size = value.type.size if value.type.bits != 1 else 1
        data = self.scratch("last", 16)
        if ty == "i1":
            ty = "i8"
            chunks = [temp(f"zext {vec('i1')} {x} to {vec('i8')}") for x in self.values.chunks(value)]
        else:
            chunks = self.values.chunks(value)
        self.spill_chunks(data, ty, size, chunks)
        self.code.need("declare i32 @llvm.ctlz.i32(i32, i1 immarg)")
        zeros = temp(f"call i32 @llvm.ctlz.i32(i32 {self.code.bits(self.values.mask)}, i1 false)")
        lane = temp(f"xor i32 {zeros}, 31")
        wide = temp(f"zext i32 {lane} to i64")
        at = temp(f"getelementptr {ty}, ptr {data}, i64 {wide}")
        return temp(f"load {ty}, ptr {at}")

    def store_uniform(self, instr: Instr) -> None:
        stored = instr.extra["stored"]
        assert isinstance(stored, Type)
        where = self.address(instr.args[1], stored.size)
        value = self.last_lane_value(instr.args[0])
        ty, align = scalar_type(stored), instr.extra.get("align", 1)
        ok = self.inside(where) if self.plan.checked else None
        if ok is None:
            self.code.emit(f"store {ty} {value}, ptr {where.base}, align {align}")
            return
        fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
        self.code.emit(f"br i1 {ok}, label %{fast}, label %{slow}, !prof !1")
        self.code.place(fast)
        self.code.emit(f"store {ty} {value}, ptr {where.base}, align {align}")
        self.code.jump(done)
        self.code.place(slow)
        data = self.scratch("data", 16)
        bits = self.one_lane_bits()
        lane = self.code.temp(f"zext i32 {self.first_lane()} to i64")
        at = self.code.temp(f"mul i64 {lane}, {where.size}")
        pointer = self.code.temp(f"getelementptr i8, ptr {data}, i64 {at}")
        self.code.emit(f"store {ty} {value}, ptr {pointer}, align 1")
        self.call_slow(instr, where, STORE, self.spill_addresses(where), data, bits)
        self.code.jump(done)
        self.code.place(done)

    # -- pattern accesses, one chunk ---------------------------------------------------------------
    def chunk_kind(self, where: Address, c: int) -> str:
        assert where.offsets is not None
        part = where.offsets[c * self.code.width : (c + 1) * self.code.width]
        if all(o == part[0] for o in part):
            return "same"
        if all(o == part[0] + i * where.size for i, o in enumerate(part)):
            return "row"
        return "other"

    def has_masked(self, size: int, ty: str) -> bool:
        """Whether the machine loads and stores a row of these under a mask: AVX2 only numbers of 32 and 64 bits."""
        return ty != "ptr" and (size in (4, 8) or (self.code.width == 16 and size in (1, 2)))

    def pointer_at(self, base: str, offset: int) -> str:
        return self.code.temp(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base

    def ahead(self, where: Address, c: int) -> str:
        """A page ahead, where that is worth a prefetch: processors' own prefetchers stop at its end."""
        assert where.offsets is not None
        if not self.plan.prefetch or c * self.code.width * where.size % CACHE_LINE:
            return ""
        return self.pointer_at(where.base_of(c), where.offsets[c * self.code.width] + _PAGE)

    def load_pattern(self, instr: Instr, where: Address, c: int, masked: bool) -> str:
        assert where.offsets is not None
        ty, align = scalar_type(instr.type), min(where.size, int(str(instr.extra.get("align", 1))))
        vec = self.code.vec(ty)
        first = where.offsets[c * self.code.width]
        kind = self.chunk_kind(where, c)
        if masked and self.values.mask is not None:
            if kind == "row" and self.has_masked(where.size, ty):
                pointer = self.pointer_at(where.base_of(c), first)
                name = f"llvm.masked.load.v{self.code.width}{self.at.ops.suffix(ty, None)}.p0"
                self.code.need(f"declare {vec} @{name}(ptr, {self.code.vec('i1')}, {vec})")
                return self.code.temp(
                    f"call {vec} @{name}(ptr align {align} {pointer}, {self.code.vec('i1')} {self.values.mask[c]}, "
                    f"{vec} zeroinitializer)"
                )
            return self.at.gathers.gather(self.address_chunk(where, c), ty, align, self.values.mask[c])
        if kind == "row":
            self.at.streaming.prefetch(self.ahead(where, c), 0)
            return self.code.temp(f"load {vec}, ptr {self.pointer_at(where.base_of(c), first)}, align {align}")
        if kind == "same":
            one = self.code.temp(f"load {ty}, ptr {self.pointer_at(where.base_of(c), first)}, align {align}")
            return self.values.splat(ty, one)
        result = "poison"
        for i in range(self.code.width):
            pointer = self.pointer_at(where.base_of(c), where.offsets[c * self.code.width + i])
            one = self.code.temp(f"load {ty}, ptr {pointer}, align {align}")
            result = self.code.temp(f"insertelement {vec} {result}, {ty} {one}, i64 {i}")
        return result

    def store_chunks(self, instr: Instr, where: Address, chunks: range) -> None:
        """Chunks of a store, in the order of lanes; those that lie side by side as one row."""
        assert where.offsets is not None
        row = Row(min(where.size, int(str(instr.extra.get("align", 1)))))
        left = list(chunks)
        while left:
            c = left[0]
            first = where.offsets[c * self.code.width]
            is_row = self.values.mask is None and self.chunk_kind(where, c) == "row"
            if not is_row or where.bases or first != row.end:
                self.at.streaming.store_row(instr, row)
                row = Row(row.align)
            if not is_row:
                self.store_pattern(instr, where, c)
                left = left[1:]
                continue
            pair = self.store_pair(instr, where, c) if len(left) > 1 else None
            taken = left[: 2 if pair else 1]
            row.add(*(pair or self.store_single(instr, where, c)), first, len(taken) * self.code.width * where.size)
            row.ahead += [self.ahead(where, i) for i in taken]
            left = left[len(taken) :]
        self.at.streaming.store_row(instr, row)

    def store_single(self, instr: Instr, where: Address, c: int) -> tuple[str, str]:
        assert where.offsets is not None
        stored = instr.extra["stored"]
        assert isinstance(stored, Type)
        value = self.values.chunk(instr.args[0], c)
        pointer = self.pointer_at(where.base_of(c), where.offsets[c * self.code.width])
        return f"{self.code.vec(scalar_type(stored))} {value}", pointer

    def store_pattern(self, instr: Instr, where: Address, c: int) -> None:
        assert where.offsets is not None
        stored = instr.extra["stored"]
        assert isinstance(stored, Type)
        ty, align = scalar_type(stored), min(where.size, int(str(instr.extra.get("align", 1))))
        vec, value = self.code.vec(ty), self.values.chunk(instr.args[0], c)
        first = where.offsets[c * self.code.width]
        kind = self.chunk_kind(where, c)
        if kind == "row" and self.values.mask is not None and self.has_masked(where.size, ty):
            name = f"llvm.masked.store.v{self.code.width}{self.at.ops.suffix(ty, None)}.p0"
            self.code.need(f"declare void @{name}({vec}, ptr, {self.code.vec('i1')})")
            pointer, mask = self.pointer_at(where.base_of(c), first), f"{self.code.vec('i1')} {self.values.mask[c]}"
            self.code.emit(f"call void @{name}({vec} {value}, ptr align {align} {pointer}, {mask})")
        elif self.values.mask is None:
            for i in range(self.code.width):
                one = self.code.temp(f"extractelement {vec} {value}, i64 {i}")
                pointer = self.pointer_at(where.base_of(c), where.offsets[c * self.code.width + i])
                self.code.emit(f"store {ty} {one}, ptr {pointer}, align {align}")
        else:
            self.at.gathers.scatter_lanes(self.address_chunk(where, c), value, ty, align, self.values.mask[c])

    def store_pair(self, instr: Instr, where: Address, c: int) -> tuple[str, str] | None:
        """Chunks c and c + 1 as one part, where they are two halves of a row of numbers cut to 16 bits."""
        tops = [self.values.tops.get(self.values.chunk(instr.args[0], i), "") for i in (c, c + 1)]
        assert where.offsets is not None
        first, second = where.offsets[c * self.code.width], where.offsets[(c + 1) * self.code.width]
        is_next = self.chunk_kind(where, c + 1) == "row" and second - first == 2 * self.code.width
        if where.bases or not is_next or not all(tops):
            return None
        count, both = 2 * self.code.width, ", ".join(f"i32 {i}" for i in range(2 * self.code.width))
        vec = self.code.vec("i32")
        whole = self.code.temp(f"shufflevector {vec} {tops[0]}, {vec} {tops[1]}, <{count} x i32> <{both}>")
        value = self.code.temp(f"trunc <{count} x i32> {whole} to <{count} x i16>")
        return f"<{count} x i16> {value}", self.pointer_at(where.base_of(c), first)

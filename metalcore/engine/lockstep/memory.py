"""Loads, stores and their bounds: addresses as a scalar, as a scalar plus a pattern, or lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from metalcore.engine.abi import ATOMIC as ATOMIC
from metalcore.engine.abi import ATOMIC_LOAD as ATOMIC_LOAD
from metalcore.engine.abi import BUFFERS
from metalcore.engine.abi import LOAD as LOAD
from metalcore.engine.abi import STORE as STORE
from metalcore.engine.ir import Global, Instr, Type, Value, array, gep_terms, vector
from metalcore.engine.ir.types import I1, I8, I16, I32, I64, I128, PTR, VOID

from .bounds import FAR, SMALL_BITS
from .frame import ALL_INSIDE, FIRST_THREAD, GROUP_MEMORY, LAUNCH, PRIVATE, WORKER, of_launch
from .gathers import gather_at_once, scatter_at_once
from .operands import FALSE, TRUE, Given, Operand, constant, poison, zero
from .roots import Root
from .shapes import LANE, LANES, ZERO
from .streaming import Row
from .support import KEEPS
from .values import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters


SLOTS = BUFFERS  # of buffers, and of threadgroup memory, in mc_launch
_NOWHERE = Operand("", PTR)


Test = Callable[[], Operand]  # writes a test


@dataclass
class Address:
    """Where a memory instruction goes. `offsets` is None where each lane has an address of its own."""

    pointer: Value
    base: Operand  # scalar pointer of lane offsets 0; _NOWHERE for lane-by-lane addresses
    offsets: tuple[int, ...] | None
    roots: frozenset[Root]
    size: int
    lane_step: int = 0  # added per lane to lane-by-lane addresses (interleaved private arrays)
    bases: tuple[Operand, ...] = ()  # one per chunk, where offsets count from the chunk's first lane

    @property
    def uniform(self) -> bool:
        return self.offsets == ZERO and not self.bases

    def base_of(self, c: int) -> Operand:
        return self.bases[c] if self.bases else self.base

    @property
    def private(self) -> bool:
        return all(r.kind == "private" for r in self.roots)


class Memory:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.roots, self.plan = at, at.code, at.values, at.roots, at.plan
        self.private_total = 0  # bytes of private arrays that lie behind a coroutine's frame

    # -- addresses ---------------------------------------------------------------------------------
    def root_base(self, root: Root) -> Operand:
        """Address of a root as a scalar, computed once at the top of the function."""
        key = (root, "base")
        if key not in self.code.entry_values:
            self.code.entry_values[key] = self._root_base(root)
        return self.code.entry_values[key]

    def _root_base(self, root: Root) -> Operand:
        if root.kind == "buffer":
            at = self.code.entry.gep(LAUNCH, 8 * root.slot)
            return self.code.entry.load(PTR, at, invariant=True)
        if root.kind == "tgarg":
            at = self.code.entry.gep(LAUNCH, of_launch("tg_offset") + 4 * root.slot)
            offset = self.code.entry.load(I32, at, invariant=True)
            wide = self.code.entry.zext(offset, I64)
            return self.code.entry.gep(GROUP_MEMORY, wide)
        if root.kind == "shared":
            return self.code.entry.gep(GROUP_MEMORY, self.plan.shared_offsets[root.name])
        if root.kind == "table":
            return Operand(root.name, PTR)
        return self.private_base(self.roots.allocas[root])

    def root_size(self, root: Root) -> int | Operand:
        """Bytes that one lane may touch."""
        if root.kind == "buffer":
            key = (root, "size")
            if key not in self.code.entry_values:
                at = self.code.entry.gep(LAUNCH, of_launch("sizes") + 8 * root.slot)
                self.code.entry_values[key] = self.code.entry.load(I64, at, invariant=True)
            return self.code.entry_values[key]
        if root.kind == "tgarg":
            key = (root, "size")
            if key not in self.code.entry_values:
                at = self.code.entry.gep(LAUNCH, of_launch("tg_size") + 4 * root.slot)
                size = self.code.entry.load(I32, at, invariant=True)
                self.code.entry_values[key] = self.code.entry.zext(size, I64)
            return self.code.entry_values[key]
        if root in self.roots.interleave:
            return self.plan.bounds.private_bytes(root)  # lanes share rows
        extent = self.plan.bounds.extent(root)
        assert extent is not None
        return extent

    def global_address(self, value: Global) -> Operand:
        return self.root_base(Root("table" if value.constant else "shared", name=value.name))

    def private_base(self, value: Instr) -> Operand:
        root = Root("private", name=value.name)
        size = self.plan.bounds.private_bytes(root)
        if not self.plan.coroutine:
            return self.code.slot((value, "private"), array(size, I8), align=64)
        # LLVM does not see that vectors of pointers keep an alloca in use across a suspension: lay it behind the frame.
        key = (value, "private")
        if key not in self.code.entry_values:
            self.code.entry_values[key] = self.code.entry.gep(PRIVATE, self.private_total)
            self.private_total += (size + 127) // 128 * 128
        return self.code.entry_values[key]

    def compute_gep(self, instr: Instr) -> Operand:
        """The scalar form of a pointer: base plus the bases of its indices."""
        pointer = self.values.scalar(instr.args[0])
        times = LANES if any(r in self.roots.interleave for r in self.roots.get(instr)) else 1
        for scale, index in gep_terms(instr):
            scale *= times
            if isinstance(index, int):
                if index:
                    pointer = self.code.gep(pointer, index * scale)
                continue
            name = self.values.scalar(index)
            if index.type.bits < 64:
                name = self.code.sext(name, I64)
            scaled = self.code.mul(name, scale) if scale != 1 else name
            if times != 1:
                scaled = self.near_or_far(index, scale, name, scaled)
            pointer = self.code.gep(pointer, scaled)
        return pointer

    def near_or_far(self, index: Value, scale: int, name: Operand, scaled: Operand) -> Operand:
        """The offset in an interleaved array; far away from everything where scaling it by 32 lanes loses bits."""
        if not self.plan.checked or self.plan.bounds.is_small(index, scale):
            return scaled
        half, whole = 1 << SMALL_BITS, 1 << (SMALL_BITS + 1)
        good = self.code.icmp("ult", self.code.add(name, half), whole)
        return self.code.select(good, scaled, FAR)

    def gep(self, instr: Instr, c: int | None) -> Operand:
        return self.compute_gep(instr) if c is None else self.gep_chunk(instr, c)

    def gep_chunk(self, instr: Instr, c: int) -> Operand:
        pointer = self.values.chunk(instr.args[0], c)
        base = self.values.scalar(instr.args[0]) if self.values.shape(instr.args[0]).uniform else pointer
        times = LANES if any(r in self.roots.interleave for r in self.roots.get(instr)) else 1
        total: Operand | None = None
        known = 0
        for scale, index in gep_terms(instr):
            scale *= times
            if isinstance(index, int):
                known = index * scale
                continue
            name = self.values.chunk(index, c)
            if index.type.bits < 64:
                name = self.code.sext(name, self.code.vec(I64))
            given = name
            if scale != 1:
                name = self.code.mul(name, scale)
            if times != 1:
                name = self.near_or_far(index, scale, given, name)
            total = self.code.add(total, name) if total is not None else name
        if known:
            total = self.code.add(total, known) if total is not None else constant(self.code.vec(I64), known)
        return self.code.gep(base, total) if total is not None else pointer

    def address(self, pointer: Value, size: int) -> Address:
        roots = self.roots.of_address(pointer)
        shape = self.values.shape(pointer)
        unit = next((self.roots.interleave[r] for r in roots if r in self.roots.interleave), 0)
        if unit:
            if shape.uniform:
                return Address(pointer, self.values.scalar(pointer), tuple(lane * unit for lane in LANE), roots, size)
            return Address(pointer, _NOWHERE, None, roots, size, unit)
        if shape.offsets is not None:
            return Address(pointer, self.values.scalar(pointer), shape.offsets, roots, size)
        if all(r.kind not in ("private", "unknown") for r in roots):
            offsets = self.at.chunked.chunk_offsets(pointer)
            if offsets is not None and self.at.chunked.plain_chunks(offsets, size):
                bases = tuple(self.at.chunked.chunk_base(pointer, c) for c in range(self.code.count))
                return Address(pointer, _NOWHERE, offsets, roots, size, bases=bases)
        return Address(pointer, _NOWHERE, None, roots, size)

    def address_chunk(self, where: Address, c: int) -> Operand:
        if where.offsets is not None and self.is_interleaved(where):
            offsets = self.code.lane_constants(I64, where.offsets, c)
            return self.code.gep(where.base, offsets)
        pointers = self.values.chunk(where.pointer, c)
        if where.lane_step:
            steps = self.code.lane_constants(I64, [lane * where.lane_step for lane in LANE], c)
            pointers = self.code.gep(pointers, steps)
        return pointers

    def is_interleaved(self, where: Address) -> bool:
        return any(r in self.roots.interleave for r in where.roots)

    # -- bounds ------------------------------------------------------------------------------------
    def limit(self, root: Root, span: int) -> Operand:
        """First byte offset that is too large for an access of `span` bytes."""
        size = self.root_size(root)
        if isinstance(size, int):
            return constant(I64, max(0, size + 1 - span))
        key = (root, "limit", span)
        if key not in self.code.entry_values:
            more = self.code.entry.add(size, 1)
            self.code.entry_values[key] = self.code.entry.intrinsic("usub.sat", more, constant(I64, span))
        return self.code.entry_values[key]

    def inside(self, where: Address) -> Operand | None:
        """Scalar test that every lane of a uniform or pattern access is in bounds; None where it surely is."""
        assert where.offsets is not None
        if any(r.kind == "unknown" for r in where.roots):
            return FALSE
        if self.plan.bounds.proves(where.pointer, where.size, where.roots):
            return None
        return self.inside_record(where)

    def branch_inside(self, where: Address, fast: str, slow: str) -> bool:
        """Go on at one of two labels: are all lanes of an access in bounds? False: they surely are, it goes on here."""
        if self.plan.bounds.proves(where.pointer, where.size, where.roots) or self.at.proofs.shows(where):
            return False
        is_covered = self.at.proofs.covers(where)
        later = [lambda: self.inside_record(where)] if is_covered else []
        self.branch_on([] if is_covered else [self.inside_record(where)], later, fast, slow)
        return True

    def branch_on(self, tests: Sequence[Operand], later: Sequence[Test], fast: str, slow: str) -> None:
        """Go on at one of two labels. *later*: tests that are made only where the size of the group is not enough."""
        ok = self._all(tests)
        if later:
            assert self.values.block is not None
            self.at.proofs.asked.add(self.values.block)
            short, exact = self.code.new_label("short"), self.code.new_label("exact")
            self.code.cond_br(ALL_INSIDE, short, exact, likely=True)
            saved = self.at.lanes.snapshot()
            self.code.place(exact)
            self.code.cond_br(self._all([*tests, *(test() for test in later)]), fast, slow, likely=True)
            self.at.lanes.restore(saved)
            self.code.place(short)
        if tests:
            self.code.cond_br(ok, fast, slow, likely=True)
        else:
            self.code.jump(fast)

    def _all(self, tests: Sequence[Operand]) -> Operand:
        total = tests[0] if tests else TRUE
        for test in tests[1:]:
            total = self.code.and_(total, test)
        return total

    def inside_record(self, where: Address) -> Operand:
        assert where.offsets is not None
        if any(r.kind == "unknown" for r in where.roots):
            return FALSE
        parts = [(where.base, where.offsets, LANE)]
        if where.bases:
            slices = [slice(c * self.code.width, (c + 1) * self.code.width) for c in range(self.code.count)]
            parts = [(where.base_of(c), where.offsets[own], LANE[own]) for c, own in enumerate(slices)]
        tests = [self._range_inside(where, *part) for part in parts]
        return self._all([*tests, *self.guards(where)])

    def _range_inside(self, where: Address, base: Operand, offsets: Sequence[int], lanes: Sequence[int]) -> Operand:
        """Do lanes at base + offset lie in the root they came from? Each lane has its own part of a private array."""
        origin = self.roots.origins.get(where.pointer)
        if origin is not None and not self.values.shape(origin).uniform:
            return FALSE  # lane by lane
        number = self.code.ptrtoint(base)
        result: Operand | None = None
        for root in sorted(where.roots, key=str):
            stride = self.plan.bounds.lane_stride(root)
            own = [offset - lane * stride for offset, lane in zip(offsets, lanes, strict=True)]
            low, high = min(own), max(own)
            first = self.code.add(number, low) if low else number
            offset = self.code.sub(first, self.root_number(root))
            hit = self.code.icmp("ult", offset, self.limit(root, high - low + where.size))
            hit = self.only_from(where, root, hit)
            result = self.code.or_(result, hit) if result is not None else hit
        assert result is not None
        return result

    def only_from(self, where: Address, root: Root, hit: Operand, c: int | None = None) -> Operand:
        """A test of one root's bounds, for pointers that may come from several: true only where it is this one."""
        if where.pointer not in self.roots.origins:
            return hit
        own = self.comes_from(where, root, c)
        return self.code.and_(hit, own)

    def comes_from(self, where: Address, root: Root, c: int | None) -> Operand:
        origin, number = self.roots.origins[where.pointer], self.roots.number(root)
        if c is None:
            return self.code.icmp("eq", self.values.scalar(origin), number)
        return self.code.icmp("eq", self.values.chunk(origin, c), number)

    def guards(self, where: Address) -> list[Operand]:
        """Scalar tests that the pattern of an access is one: see bounds.py."""
        return [] if self.plan.bounds.shows_wrap(where.pointer, where.roots) else self.pattern_guards(where)

    def pattern_guards(self, where: Address) -> list[Operand]:
        return self.at.chunked.chunk_guards(where.pointer) if where.bases else self.at.guards.wrap_guards(where.pointer)

    def inside_lanes(self, where: Address, addresses: list[Operand]) -> list[Operand]:
        """Lane by lane, a mask of those in bounds."""
        out = []
        for c in range(self.code.count):
            number = self.code.ptrtoint(addresses[c], self.code.vec(I64))
            result: Operand | None = None
            for root in sorted(where.roots, key=str):
                if root.kind == "unknown":
                    continue
                base = self.values.splat(self.root_number(root))
                offset = self.code.sub(number, base)
                stride = self.plan.bounds.lane_stride(root)
                if stride:
                    starts = self.code.lane_constants(I64, [lane * stride for lane in LANE], c)
                    offset = self.code.sub(offset, starts)
                limit = self.limit(root, where.size)
                is_known = isinstance(self.root_size(root), int)
                bound = constant(number.type, limit.text) if is_known else self.values.splat(limit)
                hit = self.code.icmp("ult", offset, bound)
                hit = self.only_from(where, root, hit, c)
                result = self.code.or_(result, hit) if result is not None else hit
            out.append(result if result is not None else zero(self.code.mask))
        return out

    def root_number(self, root: Root) -> Operand:
        key = (root, "number")
        if key not in self.code.entry_values:
            base = self.root_base(root)
            self.code.entry_values[key] = self.code.entry.ptrtoint(base)
        return self.code.entry_values[key]

    # -- slow path ---------------------------------------------------------------------------------
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
            self.spill_chunks(addresses, 8, [self.address_chunk(where, c) for c in range(self.code.count)])
        return addresses

    def call_slow(
        self, instr: Instr, where: Address, kind: int, addresses: Operand, data: Operand, bits: Operand
    ) -> None:
        """Hand an access to the runtime, which does what is in bounds and reports the rest."""
        if where.pointer not in self.roots.origins:
            self._call_slow(instr, where, kind, addresses, data, bits)
            return
        left = bits
        *others, last = sorted(where.roots, key=str)
        for root in others:
            chunks = [self.comes_from(where, root, c) for c in range(self.code.count)]
            own = self.code.and_(bits, self.code.bits(chunks))
            left = self.code.xor(left, own)
            self._call_slow(instr, replace(where, roots=frozenset([root])), kind, addresses, data, own)
        self._call_slow(instr, replace(where, roots=frozenset([last])), kind, addresses, data, left)

    def _call_slow(
        self, instr: Instr, where: Address, kind: int, addresses: Operand, data: Operand, bits: Operand
    ) -> None:
        site = self.plan.site(instr, where, kind)
        known = [r for r in sorted(where.roots, key=str) if r.kind != "unknown"]
        bounds = self.code.slot(("bounds", len(known) + 1), array(3 * len(known) + 3, I64))
        limits: list[tuple[Given, ...]] = []
        if len(known) != len(where.roots):
            limits.append((0, 0, 0))  # a lane that lies in none of them may be anywhere
        for root in known:
            low = self.root_number(root)
            high = self.code.add(low, self.root_size(root))
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

    # -- uniform accesses --------------------------------------------------------------------------
    def load_uniform(self, instr: Instr) -> Operand:
        where = self.address(instr.args[0], instr.type.size)
        ty = scalar_type(instr.type)
        align = int(str(instr.extra.get("align", 1)))
        fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
        if not self.plan.checked or not self.branch_inside(where, fast, slow):
            return self.code.load(ty, where.base, align)
        result = self.code.slot((instr, "checked"), ty)
        self.code.place(fast)
        value = self.code.load(ty, where.base, align)
        self.code.store(value, result)
        self.code.jump(done)
        self.code.place(slow)
        if self.at.outlined.takes(instr, where):
            (value,) = self.at.outlined.uniform(instr, where, ty)
        else:
            data = self.scratch("data", 16)
            self.code.store(constant(I128, 0), data)
            self.call_slow(instr, where, LOAD, self.spill_addresses(where), data, self.one_lane_bits())
            lane = self.first_lane()
            wide = self.code.zext(lane, I64)
            at = self.code.mul(wide, where.size)
            pointer = self.code.gep(data, at)
            value = self.code.load(ty, pointer, 1)
        self.code.store(value, result)
        self.code.jump(done)
        self.code.place(done)
        return self.code.load(ty, result)

    def first_lane(self) -> Operand:
        if self.values.mask is None:
            return constant(I32, 0)
        return self.code.intrinsic("cttz", self.values.bits_aside(), FALSE)

    def one_lane_bits(self) -> Operand:
        """All lanes do the same: report it for the first one."""
        if self.values.mask is None:
            return constant(I32, 1)
        bits = self.values.bits_aside()
        minus = self.code.sub(0, bits)
        return self.code.and_(bits, minus)

    def last_lane_value(self, value: Value) -> Operand:
        """Of lanes that store to one place, the last one wins."""
        if self.values.shape(value).uniform:
            return self.values.scalar(value)
        if self.values.mask is None:
            return self.code.extract(self.values.chunk(value, self.code.count - 1), self.code.width - 1)
        size = value.type.size if value.type.bits != 1 else 1
        data = self.scratch("last", 16)
        chunks = self.values.chunks(value)
        if chunks[0].type.item is I1:
            chunks = [self.code.zext(x, self.code.vec(I8)) for x in chunks]
        ty = chunks[0].type.item
        self.spill_chunks(data, size, chunks)
        zeros = self.code.intrinsic("ctlz", self.values.bits_aside(), FALSE)
        lane = self.code.xor(zeros, 31)
        wide = self.code.zext(lane, I64)
        at = self.code.gep(data, wide, ty)
        return self.code.load(ty, at)

    def store_uniform(self, instr: Instr) -> None:
        stored = instr.extra["stored"]
        assert isinstance(stored, Type)
        where = self.address(instr.args[1], stored.size)
        value = self.last_lane_value(instr.args[0])
        align = int(str(instr.extra.get("align", 1)))
        fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
        if not self.plan.checked or not self.branch_inside(where, fast, slow):
            self.code.store(value, where.base, align)
            return
        self.code.place(fast)
        self.code.store(value, where.base, align)
        self.code.jump(done)
        self.code.place(slow)
        if self.at.outlined.takes(instr, where):
            self.at.outlined.uniform(instr, where, value.type, value)
            self.code.jump(done)
            self.code.place(done)
            return
        data = self.scratch("data", 16)
        bits = self.one_lane_bits()
        lane = self.code.zext(self.first_lane(), I64)
        at = self.code.mul(lane, where.size)
        pointer = self.code.gep(data, at)
        self.code.store(value, pointer, 1)
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

    def has_masked(self, size: int, ty: Type) -> bool:
        """Whether the machine loads and stores a row of these under a mask: AVX2 only numbers of 32 and 64 bits."""
        return ty is not PTR and (size in (4, 8) or (self.code.width == 16 and size in (1, 2)))

    def pointer_at(self, base: Operand, offset: int) -> Operand:
        return self.code.gep(base, offset) if offset else base

    def load_pattern(self, instr: Instr, where: Address, c: int, masked: bool) -> Operand:
        assert where.offsets is not None
        ty, align = scalar_type(instr.type), min(where.size, int(str(instr.extra.get("align", 1))))
        vec = self.code.vec(ty)
        first = where.offsets[c * self.code.width]
        kind = self.chunk_kind(where, c)
        if masked and self.values.mask is not None:
            if kind == "row" and self.has_masked(where.size, ty):
                pointer = self.pointer_at(where.base_of(c), first)
                given = (pointer, self.values.mask[c], zero(vec))
                kinds = (f"align {align} ", "", "")
                return self.code.call(f"llvm.masked.load.{vec.suffix}.p0", vec, *given, kinds=kinds)
            return self.at.gathers.gather(self.address_chunk(where, c), ty, align, self.values.mask[c])
        if kind == "row":
            self.at.streaming.prefetch(self.at.fetching.ahead(where, c, is_load=True), 0)
            return self.code.load(vec, self.pointer_at(where.base_of(c), first), align)
        if kind == "same":
            one = self.code.load(ty, self.pointer_at(where.base_of(c), first), align)
            return self.values.splat(one)
        if self.plan.is_large and self.plan.sanitized:
            return gather_at_once(self.code, self.address_chunk(where, c), ty, align, None)
        result = poison(vec)
        for i in range(self.code.width):
            pointer = self.pointer_at(where.base_of(c), where.offsets[c * self.code.width + i])
            one = self.code.load(ty, pointer, align)
            result = self.code.insert(result, one, i)
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
            row.ahead += [self.at.fetching.ahead(where, i, is_load=False) for i in taken]
            left = left[len(taken) :]
        self.at.streaming.store_row(instr, row)

    def store_single(self, instr: Instr, where: Address, c: int) -> tuple[Operand, Operand]:
        assert where.offsets is not None
        value = self.values.chunk(instr.args[0], c)
        pointer = self.pointer_at(where.base_of(c), where.offsets[c * self.code.width])
        return value, pointer

    def store_pattern(self, instr: Instr, where: Address, c: int) -> None:
        assert where.offsets is not None
        stored = instr.extra["stored"]
        assert isinstance(stored, Type)
        ty, align = scalar_type(stored), min(where.size, int(str(instr.extra.get("align", 1))))
        value = self.values.chunk(instr.args[0], c)
        first = where.offsets[c * self.code.width]
        kind = self.chunk_kind(where, c)
        if kind == "row" and self.values.mask is not None and self.has_masked(where.size, ty):
            pointer = self.pointer_at(where.base_of(c), first)
            name, kinds = f"llvm.masked.store.{value.type.suffix}.p0", ("", f"align {align} ", "")
            self.code.call(name, VOID, value, pointer, self.values.mask[c], kinds=kinds)
        elif self.values.mask is None and self.plan.is_large and self.plan.sanitized:
            scatter_at_once(self.code, self.address_chunk(where, c), value, align, None)
        elif self.values.mask is None:
            for i in range(self.code.width):
                one = self.code.extract(value, i)
                pointer = self.pointer_at(where.base_of(c), where.offsets[c * self.code.width + i])
                self.code.store(one, pointer, align)
        else:
            self.at.gathers.scatter_lanes(self.address_chunk(where, c), value, align, self.values.mask[c])

    def store_pair(self, instr: Instr, where: Address, c: int) -> tuple[Operand, Operand] | None:
        """Chunks c and c + 1 as one part, where they are two halves of a row of numbers cut to 16 bits."""
        low, high = (self.values.tops.get(self.values.chunk(instr.args[0], i)) for i in (c, c + 1))
        assert where.offsets is not None
        first, second = where.offsets[c * self.code.width], where.offsets[(c + 1) * self.code.width]
        is_next = self.chunk_kind(where, c + 1) == "row" and second - first == 2 * self.code.width
        if where.bases or not is_next or low is None or high is None:
            return None
        value = self.code.trunc(self.code.concat([low, high]), vector(2 * self.code.width, I16))
        return value, self.pointer_at(where.base_of(c), first)

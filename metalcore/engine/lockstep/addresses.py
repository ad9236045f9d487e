"""Addresses: as a scalar, as a scalar plus a pattern, or lane by lane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from metalcore.engine.abi import BUFFERS
from metalcore.engine.ir import Global, Instr, Value, array, gep_terms
from metalcore.engine.ir.types import I8, I32, I64, PTR
from metalcore.engine.model import LANES

from .bounds import FAR, SMALL_BITS
from .frame import GROUP_MEMORY, LAUNCH, PRIVATE, of_launch
from .operands import Operand, constant
from .roots import Root
from .shape import LANE, ZERO

if TYPE_CHECKING:
    from .emitters import Emitters


SLOTS = BUFFERS  # of buffers, and of threadgroup memory, in mc_launch
_NOWHERE = Operand("", PTR)


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


class Addresses:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.roots, self.plan = at, at.code, at.values, at.roots, at.plan
        self.private_total = 0  # bytes of private arrays that lie behind a coroutine's frame

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

    def of(self, pointer: Value, size: int) -> Address:
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

    def chunk(self, where: Address, c: int) -> Operand:
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

    def pointer_at(self, base: Operand, offset: int) -> Operand:
        return self.code.gep(base, offset) if offset else base

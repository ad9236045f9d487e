"""The code of one function on 32 lanes as it is written: slots, masks, chunks of lanes."""

from __future__ import annotations

from collections.abc import Sequence

from metalcore.engine.ir import FLOAT, I1, I8, I32, PTR, Type, integer, vector
from metalcore.engine.model import LANES

from .builder import Builder, Later
from .operands import Operand, constant, constants, zero


class Code(Builder):
    """One function. What crosses a block lives in a slot on the stack; LLVM's mem2reg makes it SSA again."""

    def __init__(self, width: int, *, short: bool = False) -> None:
        """*short*: fewer instructions rather than the quickest ones."""
        super().__init__()
        self.width, self.short = width, short
        self.count = LANES // width
        self.has_masks = width == 16  # AVX-512 has registers for masks
        self.entry = Builder("%e", beside=self)  # run once at the top of the function
        self._vectors: dict[Type, Type] = {}
        self.alloca_lines: list[str] = []  # in the entry block itself, or mem2reg passes them over
        self.slots: dict[object, tuple[Operand, Type]] = {}
        self.label = ""
        self.entry_values: dict[object, Operand] = {}
        self.helpers: dict[str, str] = {}  # functions that the code calls, by name
        self.mask = vector(width, I1)  # type of a chunk's mask
        self.mask_type = vector(width, I1 if self.has_masks else I32)  # of one that is kept, see `kept_mask`

    # -- text --------------------------------------------------------------------------------------
    def vec(self, item: Type) -> Type:
        """One of these in each lane of a chunk."""
        found = self._vectors.get(item)
        if found is None:
            found = self._vectors[item] = vector(self.width, item)
        return found

    def unique(self) -> int:
        self.names.count += 1
        return self.names.count

    def later(self, lines: Later) -> None:
        self.lines.append(lines)

    def place(self, label: str) -> None:
        """Start a basic block of output."""
        super().place(label)
        self.label = label

    # -- slots -------------------------------------------------------------------------------------
    def slot(self, key: object, ty: Type, align: int = 0) -> Operand:
        found = self.slots.get(key)
        if found is None:
            name = Operand(f"%s{len(self.slots)}", PTR)
            found = self.slots[key] = (name, ty)
            self.alloca_lines.append(f"  {name.text} = alloca {ty.text}" + (f", align {align}" if align else ""))
        return found[0]

    def stack_bound(self) -> int:
        """Bytes that the function's frame cannot be larger than: its slots, and every value spilled once."""
        return sum(_slot_bytes(ty) for _, ty in self.slots.values()) + 64 * self.names.count

    def keep(self, key: object, value: Operand) -> None:
        self.store(value, self.slot(key, value.type))

    def load_slot(self, key: object, ty: Type) -> Operand:
        return self.load(ty, self.slot(key, ty))

    def fenced(self, value: Operand) -> Operand:
        """The same vector, hidden from LLVM's optimiser: it is computed here and nowhere else."""
        floats = vector(value.type.length * value.type.bits // 32, FLOAT)
        held = self.intrinsic("arithmetic.fence", self.bitcast(value, floats))
        return self.bitcast(held, value.type)

    # Masks that are kept: as they are where there are registers for them, else as 32-bit lanes, which are faster.
    @property
    def all_lanes(self) -> Operand:
        return constant(self.mask_type, True if self.has_masks else -1)

    def kept_mask(self, mask: Operand) -> Operand:
        return mask if self.has_masks else self.wide_mask(mask)

    def read_mask(self, kept: Operand) -> Operand:
        return kept if self.has_masks else self.icmp("slt", kept, zero(self.mask_type))

    def wide_mask(self, mask: Operand) -> Operand:
        """A mask as 32-bit lanes. The fence keeps LLVM from turning it back into bits, which are slow to keep."""
        return self.fenced(self.sext(mask, self.vec(I32)))

    def lane_constants(self, item: Type, values: Sequence[int], c: int) -> Operand:
        return constants(item, values[c * self.width : (c + 1) * self.width])

    # -- whole simdgroups --------------------------------------------------------------------------
    def transpose_quads(self, v: Sequence[Operand]) -> list[Operand]:
        """Of two 4x4 matrices: one in the lower halves of four vectors, one in the upper. No shuffle crosses them."""
        low, high = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
        first, second = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
        a, b = self.shuffle(v[0], low, v[1]), self.shuffle(v[2], low, v[3])
        p, q = self.shuffle(v[0], high, v[1]), self.shuffle(v[2], high, v[3])
        return [self.shuffle(x, picks, y) for x, y in ((a, b), (p, q)) for picks in (first, second)]

    def split(self, whole: Operand) -> list[Operand]:
        """All 32 lanes -> chunks."""
        if self.count == 1:
            return [whole]
        return [self.shuffle(whole, range(c * self.width, (c + 1) * self.width)) for c in range(self.count)]

    def any(self, mask: Sequence[Operand]) -> Operand:
        """Is any lane set? One i1."""
        total = mask[0]
        for other in mask[1:]:
            total = self.or_(total, other)
        return self.icmp("ne", self.bitcast(total, integer(self.width)), 0)

    def all(self, mask: Sequence[Operand]) -> Operand:
        total = mask[0]
        for other in mask[1:]:
            total = self.and_(total, other)
        return self.icmp("eq", self.bitcast(total, integer(self.width)), -1)

    def bits(self, mask: Sequence[Operand] | None) -> Operand:
        """The mask as a 32-bit number."""
        if mask is None:
            return constant(I32, -1)
        if self.short:
            return self.bitcast(self.concat(mask), I32)
        total: Operand | None = None
        for c, part in enumerate(mask):
            narrow = self.bitcast(part, integer(self.width))
            wide = self.zext(narrow, I32) if self.width < 32 else narrow
            total = wide if total is None else self.or_(total, self.shl(wide, c * self.width))
        assert total is not None
        return total

    def mask_of(self, every: Operand, c: int) -> Operand:
        """The mask of chunk c, of the 32 bits of all masks that each of its lanes has."""
        probes = [(1 << lane) - (1 << 32 if lane == 31 else 0) for lane in range(LANES)]
        hit = self.and_(every, self.lane_constants(I32, probes, c))
        return self.icmp("ne", hit, zero(hit.type))


def _slot_bytes(ty: Type) -> int:
    """Bytes of a slot with what its alignment may cost."""
    if ty.kind not in ("vector", "array"):
        return 16
    return ty.length * (1 if ty.item is I8 else _slot_bytes(ty.item)) + 64

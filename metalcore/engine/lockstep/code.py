"""The text of one function as it is written: lines, names, labels, slots, masks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .shapes import LANES

Later = Callable[[], list[str]]  # lines that are known when all others are written


class Code:
    """Lines of vector IR. What crosses a block lives in a slot on the stack; LLVM's mem2reg makes it SSA again."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.count = LANES // width
        self.has_masks = width == 16  # AVX-512 has registers for masks
        self.lines: list[str | Later] = []
        self.entry_lines: list[str] = []  # run once at the top of the function
        self.alloca_lines: list[str] = []  # in the entry block itself, or mem2reg passes them over
        self.slots: dict[object, tuple[str, str]] = {}
        self.temps = 0
        self.label = ""
        self.entry_values: dict[object, str] = {}
        self.helpers: dict[str, str] = {}  # functions that the code calls, by name
        self.declarations: set[str] = set()

    def need(self, declaration: str) -> None:
        # One spelling: LLVM refuses to see an intrinsic declared twice, and knows its immediate arguments itself.
        self.declarations.add(declaration.replace(" immarg", ""))

    # -- text --------------------------------------------------------------------------------------
    def vec(self, scalar: str) -> str:
        return f"<{self.width} x {scalar}>"

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def temp(self, text: str) -> str:
        self.temps += 1
        name = f"%t{self.temps}"
        self.lines.append(f"  {name} = {text}")
        return name

    def unique(self) -> int:
        self.temps += 1
        return self.temps

    def later(self, lines: Later) -> None:
        self.lines.append(lines)

    def text(self) -> list[str]:
        """All lines; those that were put off are made now, in order."""
        return [text for line in self.lines for text in ((line,) if isinstance(line, str) else line())]

    def new_label(self, hint: str) -> str:
        self.temps += 1
        return f"{hint}.{self.temps}"

    def place(self, label: str) -> None:
        """Start a basic block of output."""
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def at_entry(self, text: str) -> str:
        self.temps += 1
        name = f"%e{self.temps}"
        self.entry_lines.append(f"  {name} = {text}")
        return name

    # -- slots -------------------------------------------------------------------------------------
    def slot(self, key: object, ty: str, align: int = 0) -> str:
        found = self.slots.get(key)
        if found is None:
            name = f"%s{len(self.slots)}"
            found = self.slots[key] = (name, ty)
            self.alloca_lines.append(f"  {name} = alloca {ty}" + (f", align {align}" if align else ""))
        return found[0]

    def stack_bound(self) -> int:
        """Bytes that the function's frame cannot be larger than: its slots, and every value spilled once."""
        return sum(_slot_bytes(ty) for _, ty in self.slots.values()) + 64 * self.temps

    def store_slot(self, key: object, ty: str, value: str) -> None:
        self.emit(f"store {ty} {value}, ptr {self.slot(key, ty)}")

    def load_slot(self, key: object, ty: str) -> str:
        return self.temp(f"load {ty}, ptr {self.slot(key, ty)}")

    def fenced(self, ty: str, bits: int, name: str) -> str:
        """The same vector, hidden from LLVM's optimiser: it is computed here and nowhere else."""
        floats = f"<{self.width * bits // 32} x float>"
        short = f"llvm.arithmetic.fence.v{self.width * bits // 32}f32"
        self.need(f"declare {floats} @{short}({floats})")
        held = self.temp(f"bitcast {self.vec(ty)} {name} to {floats}") if self.vec(ty) != floats else name
        held = self.temp(f"call {floats} @{short}({floats} {held})")
        return self.temp(f"bitcast {floats} {held} to {self.vec(ty)}") if self.vec(ty) != floats else held

    # Masks that are kept: as they are where there are registers for them, else as 32-bit lanes, which are faster.
    @property
    def mask_type(self) -> str:
        return self.vec("i1" if self.has_masks else "i32")

    @property
    def all_lanes(self) -> str:
        return "splat (i1 true)" if self.has_masks else "splat (i32 -1)"

    def kept_mask(self, mask: str) -> str:
        return mask if self.has_masks else self.wide_mask(mask)

    def read_mask(self, kept: str) -> str:
        return kept if self.has_masks else self.temp(f"icmp slt {self.mask_type} {kept}, zeroinitializer")

    def wide_mask(self, mask: str) -> str:
        """A mask as 32-bit lanes. The fence keeps LLVM from turning it back into bits, which are slow to keep."""
        return self.fenced("i32", 32, self.temp(f"sext {self.vec('i1')} {mask} to {self.vec('i32')}"))

    def lane_constants(self, ty: str, values: Sequence[int], c: int) -> str:
        part = values[c * self.width : (c + 1) * self.width]
        return "<" + ", ".join(f"{ty} {v}" for v in part) + ">"

    def join(self, chunks: Sequence[str], ty: str) -> str:
        """Chunks -> one <32 x ty>."""
        parts, width = list(chunks), self.width
        while len(parts) > 1:
            both = ", ".join(f"i32 {i}" for i in range(2 * width))
            parts = [
                self.temp(f"shufflevector <{width} x {ty}> {a}, <{width} x {ty}> {b}, <{2 * width} x i32> <{both}>")
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        return parts[0]

    def split(self, whole: str, ty: str) -> list[str]:
        """<32 x ty> -> chunks."""
        if self.count == 1:
            return [whole]
        out = []
        for c in range(self.count):
            picks = ", ".join(f"i32 {c * self.width + i}" for i in range(self.width))
            out.append(self.temp(f"shufflevector <32 x {ty}> {whole}, <32 x {ty}> poison, {self.vec('i32')} <{picks}>"))
        return out

    def any(self, mask: Sequence[str]) -> str:
        """Is any lane set? One i1."""
        total = mask[0]
        for other in mask[1:]:
            total = self.temp(f"or {self.vec('i1')} {total}, {other}")
        bits = self.temp(f"bitcast {self.vec('i1')} {total} to i{self.width}")
        return self.temp(f"icmp ne i{self.width} {bits}, 0")

    def all(self, mask: Sequence[str]) -> str:
        total = mask[0]
        for other in mask[1:]:
            total = self.temp(f"and {self.vec('i1')} {total}, {other}")
        bits = self.temp(f"bitcast {self.vec('i1')} {total} to i{self.width}")
        return self.temp(f"icmp eq i{self.width} {bits}, -1")

    def bits(self, mask: Sequence[str] | None) -> str:
        """The mask as a 32-bit number."""
        if mask is None:
            return "-1"
        total = ""
        for c, part in enumerate(mask):
            narrow = self.temp(f"bitcast {self.vec('i1')} {part} to i{self.width}")
            wide = self.temp(f"zext i{self.width} {narrow} to i32") if self.width < 32 else narrow
            if c:
                moved = self.temp(f"shl i32 {wide}, {c * self.width}")
                total = self.temp(f"or i32 {total}, {moved}")
            else:
                total = wide
        return total

    def from_bits(self, bits: str) -> list[str]:
        """A 32-bit number -> a mask per chunk."""
        out = []
        one = self.temp(f"insertelement {self.vec('i32')} poison, i32 {bits}, i64 0")
        every = self.temp(
            f"shufflevector {self.vec('i32')} {one}, {self.vec('i32')} poison, {self.vec('i32')} zeroinitializer"
        )
        for c in range(self.count):
            probe = self.lane_constants(
                "i32", [(1 << lane) - (1 << 32 if lane == 31 else 0) for lane in range(LANES)], c
            )
            hit = self.temp(f"and {self.vec('i32')} {every}, {probe}")
            out.append(self.temp(f"icmp ne {self.vec('i32')} {hit}, zeroinitializer"))
        return out


_LIST = re.compile(r"[\[<](\d+) x (.*)[\]>]")


def _slot_bytes(ty: str) -> int:
    """Bytes of a slot with what its alignment may cost."""
    found = _LIST.fullmatch(ty)
    return int(found[1]) * (1 if found[2] == "i8" else _slot_bytes(found[2])) + 64 if found else 16

"""Element types of arrays: their layout, their MSL, and how a value becomes a 32-bit number and back.

`fold` turns an element into a uint that depends on each of its bits, `make` a uint into an element that holds no NaN,
so that what is compared is bits and nothing is rounded. MSL text and NumPy do the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.stress.types import CHAR, FLOAT, HALF, INT, LONG, SHORT, UCHAR, UINT, ULONG, USHORT, Scalar

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Words = np.ndarray[Any, np.dtype[np.uint64]]
STEP = 0x9E3779B9  # between the components of one element
MASK32 = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Element:
    name: str
    parts: tuple[tuple[Scalar, int], ...]  # components and their offsets
    size: int
    align: int
    kind: str = "scalar"  # "scalar", "vector", "packed", "record"

    @property
    def exact(self) -> bool:
        """No byte of it is padding: what is stored is known in full."""
        return sum(s.bits // 8 for s, _ in self.parts) == self.size

    @property
    def granule(self) -> int:
        """Bytes of the smallest access that it may be taken apart into."""
        return self.parts[0][0].bits // 8 if self.kind in ("packed", "record") else self.size


def scalar(s: Scalar) -> Element:
    return Element(s.name, ((s, 0),), s.bits // 8, s.bits // 8)


def vector(s: Scalar, count: int, packed: bool = False) -> Element:
    width = s.bits // 8
    parts = tuple((s, i * width) for i in range(count))
    if packed:
        return Element(f"packed_{s.name}{count}", parts, count * width, width, "packed")
    size = width * (4 if count == 3 else count)
    return Element(f"{s.name}{count}", parts, size, size, "vector")


SCALARS = tuple(scalar(s) for s in (UINT, INT, UCHAR, CHAR, USHORT, SHORT, ULONG, LONG, HALF, FLOAT))
VECTORS = tuple(vector(s, n) for s in (UINT, INT, UCHAR, USHORT, HALF, FLOAT, SHORT, CHAR) for n in (2, 3, 4))
PACKED = tuple(vector(s, n, True) for s in (FLOAT, HALF, UINT, CHAR, USHORT, INT, SHORT) for n in (2, 3, 4))
R8 = Element("R8", ((UINT, 0), (USHORT, 4), (UCHAR, 6), (CHAR, 7)), 8, 4, "record")
R12 = Element("R12", ((FLOAT, 0), (SHORT, 4), (HALF, 6), (INT, 8)), 12, 4, "record")
R16 = Element("R16", ((ULONG, 0), (UINT, 8), (USHORT, 12), (USHORT, 14)), 16, 8, "record")
RECORDS = (R8, R12, R16)
BY_NAME = {e.name: e for e in (*SCALARS, *VECTORS, *PACKED, *RECORDS)}
UINT_ELEMENT, INT_ELEMENT, UCHAR_ELEMENT = BY_NAME["uint"], BY_NAME["int"], BY_NAME["uchar"]
FLOAT_ELEMENT, HALF_ELEMENT, ULONG_ELEMENT = BY_NAME["float"], BY_NAME["half"], BY_NAME["ulong"]


# ---- MSL ---------------------------------------------------------------------------------------------------------
def fold_text(s: Scalar, value: str) -> str:
    if s == FLOAT:
        return f"as_type<uint>({value})"
    if s == HALF:
        return f"uint(as_type<ushort>({value}))"
    if s.bits == 64:
        return f"(uint({value}) ^ uint(ulong({value}) >> 32) * 40503u)"
    return f"uint({value})" if s.kind == "uint" or s.bits == 32 else f"uint(u{s.name}({value}))"


def make_text(s: Scalar, word: str) -> str:
    if s == FLOAT:
        return f"as_type<float>(({word}) & 0xBFFFFFFFu)"
    if s == HALF:
        return f"as_type<half>(ushort(({word}) & 0xBFFFu))"
    if s.bits == 64:
        return f"{s.name}(ulong({word}) * 0x100000001ul)"
    return f"{s.name}({word})"


def members(e: Element) -> list[str]:
    if e.kind == "scalar":
        return [""]
    return [f".{c}" for c in ("xyzw" if e.kind != "record" else "abcd")][: len(e.parts)]


def helpers_text(e: Element) -> list[str]:
    """The struct of a record, and `fold` and `make` of one type."""
    lines = []
    if e.kind == "record":
        fields = " ".join(f"{s.name} {m[1:]};" for (s, _), m in zip(e.parts, members(e), strict=True))
        lines.append(f"struct {e.name} {{ {fields} }};")
    folded = [fold_text(s, f"v{m}") for (s, _), m in zip(e.parts, members(e), strict=True)]
    text = folded[0]
    for part in folded[1:]:
        text = f"({text}) * 31u + {part}"
    lines.append(f"static inline uint fold({e.name} v) {{ return {text}; }}")
    made = [make_text(s, f"u + {i * STEP & 0xFFFFFFFF}u" if i else "u") for i, (s, _) in enumerate(e.parts)]
    value = made[0] if e.kind == "scalar" else f"{e.name}{{{', '.join(made)}}}"
    if e.kind in ("vector", "packed"):
        value = f"{e.name}({', '.join(made)})"
    lines.append(f"static inline {e.name} make_{e.name}(uint u) {{ return {value}; }}")
    return lines


# ---- NumPy -------------------------------------------------------------------------------------------------------
def fold(e: Element, data: Bytes) -> Words:
    """`data` is (n, size) bytes; gives n numbers below 2^32."""
    total: Words | None = None
    for s, at in e.parts:
        width = s.bits // 8
        word = np.ascontiguousarray(data[:, at : at + width]).view(f"<u{width}")[:, 0].astype(np.uint64)
        if s.bits == 64:
            word = ((word & MASK32) ^ ((word >> np.uint64(32)) * np.uint64(40503))) & MASK32
        total = word if total is None else (total * np.uint64(31) + word) & MASK32
    assert total is not None
    return total


def make(e: Element, words: Words) -> Bytes:
    """n numbers to (n, size) bytes; padding is zero."""
    out = np.zeros((len(words), e.size), np.uint8)
    for i, (s, at) in enumerate(e.parts):
        word = (words + np.uint64(i * STEP & 0xFFFFFFFF)) & MASK32
        if s == FLOAT:
            word &= np.uint64(0xBFFFFFFF)
        elif s == HALF:
            word &= np.uint64(0xBFFF)
        elif s.bits == 64:
            word = word * np.uint64(0x100000001)
        width = s.bits // 8
        out[:, at : at + width] = word.astype(f"<u{width}")[:, None].view(np.uint8)
    return out

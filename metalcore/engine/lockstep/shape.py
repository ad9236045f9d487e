"""What a value is over the 32 lanes of a simdgroup: the same in all, a known pattern, or anything.

A shape is a tuple of 32 offsets: value[lane] = base + offsets[lane] with a scalar base. All zero is uniform; 0, 1, 2,
... is what thread ids look like. `None` stands for varying. Where the base itself is a known constant the pattern is
exact and any integer operation on it folds (`shape_arithmetic.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from metalcore.engine.model import LANES

ZERO = (0,) * LANES
LANE = tuple(range(LANES))


@dataclass(frozen=True)
class Shape:
    offsets: tuple[int, ...] | None  # None: varying
    base: int | None = None  # the base, where it is a known constant
    align: int = 1  # the base is a multiple of this power of two

    @property
    def uniform(self) -> bool:
        return self.offsets == ZERO

    @property
    def varying(self) -> bool:
        return self.offsets is None

    @property
    def known(self) -> tuple[int, ...] | None:
        """The exact value of each lane, if it is known."""
        if self.offsets is None or self.base is None:
            return None
        return tuple(self.base + o for o in self.offsets)


UNIFORM = Shape(ZERO)
VARYING = Shape(None)


def pattern(offsets: tuple[int, ...], base: int | None = None, align: int = 1) -> Shape:
    return Shape(tuple(offsets), base, align)


def wrap(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def from_lanes(values: list[int], bits: int) -> Shape:
    wrapped = [wrap(v, bits) for v in values]
    return Shape(tuple(v - wrapped[0] for v in wrapped), wrapped[0], lowest_bit(wrapped[0]))


def lowest_bit(value: int) -> int:
    return value & -value if value else 1 << 30

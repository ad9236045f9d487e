"""Floating-point numbers as exact fractions: no processor's arithmetic has a part in what a test expects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

Exact = Fraction | float  # a float where it is infinite or NaN


@dataclass(frozen=True)
class Format:
    """A binary format of IEEE 754, or bfloat."""

    size: int  # bits
    mantissa: int  # bits of it in memory
    bias: int

    @property
    def infinity(self) -> int:
        return (1 << self.size - 1) - (1 << self.mantissa)

    @property
    def sign(self) -> int:
        return 1 << self.size - 1

    def is_nan(self, bits: int) -> bool:
        return bits & ~self.sign > self.infinity

    def value(self, bits: int) -> Exact:
        """What the bits stand for; of both zeros 0."""
        sign, rest = (-1 if bits & self.sign else 1), bits & ~self.sign
        if rest >= self.infinity:
            return math.nan if rest > self.infinity else sign * math.inf
        exponent, fraction = rest >> self.mantissa, rest & (1 << self.mantissa) - 1
        if exponent:
            fraction += 1 << self.mantissa
        return sign * fraction * Fraction(2) ** (max(exponent, 1) - self.bias - self.mantissa)

    def bits(self, value: Exact) -> int:
        """To the nearest number, of two to the even one; too large ones to infinity. Of NaN the plain one."""
        if isinstance(value, float):
            if math.isnan(value):
                return self.infinity + (1 << self.mantissa - 1)
            return self.infinity + (self.sign if value < 0 else 0)
        magnitude = abs(value)
        exponent = 1 - self.bias
        if magnitude:
            near = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
            exponent = max(exponent, near if magnitude >= Fraction(2) ** near else near - 1)
        steps = round(magnitude / Fraction(2) ** (exponent - self.mantissa))
        found = min((exponent + self.bias - 1 << self.mantissa) + steps, self.infinity)
        return found + (self.sign if value < 0 else 0)


FORMATS = {"half": Format(16, 10, 15), "bfloat": Format(16, 7, 127), "float": Format(32, 23, 127)}
INTEGERS = {"char": -8, "uchar": 8, "short": -16, "ushort": 16, "int": -32, "uint": 32, "long": -64, "ulong": 64}
"""Bits of each type, negative for those with a sign."""


def size_of(kind: str) -> int:
    return 8 if kind == "bool" else FORMATS[kind].size if kind in FORMATS else abs(INTEGERS[kind])


def wrapped(number: int, kind: str) -> int:
    """The bits of an integer of that type; what does not fit is cut off."""
    return number & (1 << abs(INTEGERS[kind])) - 1


def limits(kind: str) -> tuple[int, int]:
    size = INTEGERS[kind]
    return (-(1 << -size - 1), (1 << -size - 1) - 1) if size < 0 else (0, (1 << size) - 1)


def to_integer(value: Exact, kind: str) -> int:
    """A conversion as the engine defines it: towards zero, to the nearest there is, NaN to 0; narrow types take the low
    bits of the int."""
    if isinstance(value, float) and math.isnan(value):
        return 0
    low, high = limits(kind if abs(INTEGERS[kind]) >= 32 else "int")
    if isinstance(value, float):
        return wrapped(high if value > 0 else low, kind)
    return wrapped(min(max(math.trunc(value), low), high), kind)

"""The format strings of os_log: C's, and a vector's `%v4f`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from metalcore.engine.model import VALUES

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d{0,4})(?P<precision>(?:\.\d{0,4})?)(?:v(?P<count>[234]))?"
    r"(?P<length>hh|hl|h|ll|l)?(?P<letter>.?)",
    re.DOTALL,
)
_WHOLE, _REAL = "diouxXc", "fFeEgGaA"
Value = int | float


@dataclass
class Conversion:
    """One `%...` of a format; `count` values go to it."""

    flags: str
    letter: str
    is_long: bool
    count: int
    taken: int = 0

    def take(self) -> bool:
        """One more value; whether it was the last."""
        self.taken += 1
        return self.taken == self.count

    def shown(self, values: Sequence[Value]) -> str:
        return ",".join(map(self._one, values))

    def _one(self, value: Value) -> str:
        letter = self.letter
        if letter == "p":
            return f"{int(value):#x}"
        if letter == "c":
            return chr(int(value) & 255)
        if isinstance(value, float) and letter not in _REAL:
            letter = "g"  # a float where a whole number was announced: what it is
        if letter in "aA":
            return float(value).hex()
        if letter in _REAL:
            return f"%{self.flags}{letter}" % float(value)
        number = int(value)
        if letter in "uxXo" and number < 0:
            number &= (1 << (64 if self.is_long else 32)) - 1
        return f"%{self.flags}{'d' if letter in 'diu' else letter}" % number


def pieces(text: str) -> Iterator[str | Conversion]:
    """The text between conversions, and these. ValueError: one that os_log does not have."""
    end = 0
    for found in _CONVERSION.finditer(text):
        yield text[end : found.start()]
        end = found.end()
        letter = found["letter"]
        if letter == "%":
            yield "%"
        elif letter and letter in _WHOLE + _REAL + "p":
            flags = found["flags"] + found["width"] + found["precision"]
            yield Conversion(flags, letter, "l" in (found["length"] or "").replace("hl", ""), int(found["count"] or 1))
        else:
            raise ValueError(f"has {found[0]!r}, which is no conversion of numbers")
    yield text[end:]


def conversions(text: str) -> list[Conversion]:
    return [piece for piece in pieces(text) if isinstance(piece, Conversion)]


def formatted(text: str, values: Sequence[Value]) -> str:
    """A line with its values.

    >>> formatted("%v2d is %5.2f%%, %x", [1, -2, 0.5, -1])
    '1,-2 is  0.50%, ffffffff'
    """
    rest = list(values)
    shown = []
    for piece in pieces(text):
        if isinstance(piece, Conversion):
            own, rest = rest[: piece.count], rest[piece.count :]
            shown.append(piece.shown(own))
        else:
            shown.append(piece)
    return "".join(shown)


def number(kind: str, bits: int) -> Value:
    """What 64 bits stand for; `kind` is one of model.VALUES."""
    import struct

    if kind == VALUES[4]:
        single: float = struct.unpack("<f", (bits & 0xFFFFFFFF).to_bytes(4, "little"))[0]
        return single
    if kind == VALUES[5]:
        double: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
        return double
    return bits - (1 << 64) if kind == VALUES[2] and bits >> 63 else bits

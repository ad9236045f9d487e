"""Python numbers and sequences as the bytes of a declared MSL type, range-checked."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

INTEGERS = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
}  # fmt: skip
SIZES = {name: struct.calcsize("=" + code) for name, code in INTEGERS.items()}
SIZES |= {"bool": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


class ValueProblem(Exception):
    """Why a value does not fit; the binder adds which argument it is."""


def bfloat16_bits(value: float) -> int:
    """Bits of the nearest bfloat16, ties to even, rounded once from the double.

    >>> hex(bfloat16_bits(1.0)), hex(bfloat16_bits(-2.5))
    ('0x3f80', '0xc020')
    """
    if math.isnan(value):
        return 0x7FC0
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        raise ValueProblem(f"{value!r} is out of range of bfloat") from None
    bits = int(struct.unpack("<I", packed)[0])
    nearest = struct.unpack("<f", packed)[0]
    if nearest != value:  # keep what the first rounding lost as a sticky bit
        bits = (bits - (abs(nearest) > abs(value))) | 1
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    if rounded & 0x7FFF == 0x7F80 and math.isfinite(value):
        raise ValueProblem(f"{value!r} is out of range of bfloat")
    return rounded


def _integer(code: str, name: str) -> Callable[[Any], bytes]:
    pack = struct.Struct("<" + code).pack

    def convert(value: Any) -> bytes:
        if isinstance(value, float):
            if not value.is_integer():
                raise ValueProblem(f"{value!r} is not an integer, as {name} needs")
            value = int(value)
        try:
            return pack(value)
        except struct.error:
            if not isinstance(value, int):
                raise ValueProblem(f"a {type(value).__name__} is not a number that converts to {name}") from None
            raise ValueProblem(f"{value} is out of range of {name}") from None

    return convert


def _floating(code: str, name: str) -> Callable[[Any], bytes]:
    pack = struct.Struct("<" + code).pack

    def convert(value: Any) -> bytes:
        try:
            return pack(value)
        except OverflowError:
            raise ValueProblem(f"{value!r} is out of range of {name}") from None
        except struct.error:
            raise ValueProblem(f"a {type(value).__name__} is not a number that converts to {name}") from None

    return convert


def _boolean(value: Any) -> bytes:
    if value not in (0, 1):
        raise ValueProblem(f"{value!r} is not a bool")
    return b"\1" if value else b"\0"


def _bfloat(value: Any) -> bytes:
    try:
        return bfloat16_bits(float(value)).to_bytes(2, "little")
    except (TypeError, OverflowError):
        raise ValueProblem(f"{value!r} is not a number that converts to bfloat") from None


CONVERT: dict[str, Callable[[Any], bytes]] = {
    **{name: _integer(code, name) for name, code in INTEGERS.items()},
    "float16": _floating("e", "half"),
    "float32": _floating("f", "float"),
    "float64": _floating("d", "float"),
    "bfloat16": _bfloat,
    "bool": _boolean,
}


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, complex):
        yield value.real
        yield value.imag
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value.item() if hasattr(value, "item") and hasattr(value, "dtype") else value


def sequence_bytes(value: Any, scalar: str, lanes: int, element_size: int) -> bytes:
    """A number, or a nested sequence of them, as consecutive elements; float3 is padded to its 16 bytes."""
    convert = CONVERT.get(scalar)
    if convert is None:
        raise ValueProblem(
            "a struct takes a dict of its members, metalcore.argument_buffer(...), bytes, a ctypes.Structure or a "
            "NumPy structured scalar, not Python numbers"
        )
    parts = [convert(leaf) for leaf in _leaves(value)]
    if lanes <= 1:
        return b"".join(parts)
    if len(parts) % lanes:
        raise ValueProblem(f"{len(parts)} numbers do not make whole vectors of {lanes}")
    rows = (b"".join(parts[i : i + lanes]) for i in range(0, len(parts), lanes))
    return b"".join(row.ljust(element_size, b"\0") for row in rows)

"""Values of arguments that a kernel's requirements name, read from what was bound."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from metalcore.engine.runtime import layout
from metalcore.engine.runtime.values import INTEGERS, SIZES
from metalcore.launch.expression import ExpressionError

if TYPE_CHECKING:
    from metalcore.engine.model import Argument
    from metalcore.engine.runtime.binding import Packed

_CODES = INTEGERS | {"bool": "?", "float16": "e", "float32": "f", "float64": "d"}


def reader(arguments: Sequence[Argument], packed: Packed) -> Callable[[str], Any]:
    """A function from a name, such as `n`, `size.x` or `weights.length`, to its value in this launch."""
    by_name = {a.name: a for a in arguments if a.kind in ("buffer", "value")}

    def read(name: str) -> Any:
        root, _, part = name.partition(".")
        argument = by_name[root]
        address, size = struct.unpack_from("=2Q", packed.data, 16 * argument.index)
        inline = bool(size & layout.INLINE)
        size &= ~(layout.INLINE | layout.FIXED)
        if part == "bytes":
            return size
        if part == "length":
            return size // max(1, argument.element_size)
        if size < argument.element_size:
            raise ExpressionError(f"nothing is bound to '{root}'")
        data = packed.data[address : address + size] if inline else ctypes.string_at(address, argument.element_size)
        values = _decode(data, argument)
        if part:
            return values["xyzw".index(part)]
        return values[0] if argument.lanes == 1 else values

    return read


def _decode(data: bytes, argument: Argument) -> tuple[Any, ...]:
    size = SIZES[argument.scalar]
    items = [data[i * size : (i + 1) * size] for i in range(argument.lanes)]
    if argument.scalar == "bfloat16":
        return tuple(struct.unpack("<f", b"\0\0" + item)[0] for item in items)
    return tuple(struct.unpack("<" + _CODES[argument.scalar], item)[0] for item in items)

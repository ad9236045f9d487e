"""Values for the function constants of a library, as a caller gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat, SupportsIndex

from metalcore.engine.model import FunctionConstant
from metalcore.engine.options import shown
from metalcore.engine.units import Constants
from metalcore.errors import ConstantError


def chosen_constants(declared: Sequence[FunctionConstant], constants: Mapping[int | str, object]) -> Constants:
    """The values for function constants, by index; an error names what the library has."""
    by_name = {c.name: c.index for c in declared}
    known = set(by_name.values())
    values: dict[int, Any] = {}
    for key, value in constants.items():
        index = by_name.get(key) if isinstance(key, str) else key
        if isinstance(index, bool) or index not in known:
            listed = ", ".join(f"{c.index} ('{c.name}')" for c in declared) or "none"
            raise ConstantError(f"there is no function constant {key!r}; the library has: {listed}")
        plain = _plain_constant(key, value)
        if index in values and values[index] != plain:
            raise ConstantError(f"function constant {index} is given twice, as {values[index]!r} and {plain!r}")
        values[index] = plain
    return tuple(sorted(values.items(), key=lambda item: item[0]))


def _plain_constant(key: object, value: Any) -> Any:
    """A number, or a tuple of numbers for a vector; a NumPy array is either."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    plain = tuple(plain) if isinstance(plain, list) else plain
    for number in plain if isinstance(plain, tuple) else (plain,):
        if not isinstance(number, (SupportsIndex, SupportsFloat)) or isinstance(number, (str, tuple)):
            what = f"function constant {key!r} takes a number, or as many as its vector has"
            raise ConstantError(f"{what}, not {shown(value)}")
        if isinstance(number, int) and number.bit_length() > 64:
            raise ConstantError(f"function constant {key!r}: {number.bit_length()} bits are more than any type has")
    return plain

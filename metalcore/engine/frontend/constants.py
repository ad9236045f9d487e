"""Function constants: what clang says of them, and the values that the host gives, as C++ initialisers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat, SupportsIndex

from metalcore.engine.frontend.model import ConstantSlot, Unit
from metalcore.engine.frontend.rewrite import ConstantRecord
from metalcore.engine.frontend.signature import Tables
from metalcore.engine.ir import Module, parse
from metalcore.engine.model import FunctionConstant
from metalcore.engine.names import plain_name
from metalcore.engine.options import shown
from metalcore.errors import ConstantError

_LIMITS = {f"int{n}": (-(1 << (n - 1)), (1 << (n - 1)) - 1) for n in (8, 16, 32, 64)}
_LIMITS |= {f"uint{n}": (0, (1 << n) - 1) for n in (8, 16, 32, 64)}
_LARGEST = {
    "float32": 3.4028235677973366e38,
    "float16": 65520.0,
    "bfloat16": 3.3961775292304601e38,
    "float64": math.inf,
}


def initialisers(unit: Unit, constants: Mapping[int | str, object] | None) -> dict[int, str]:
    """C++ initialiser of each constant that got a value, by its number in the text."""
    values: dict[int, str] = {}
    named: dict[int | str, list[tuple[FunctionConstant, ConstantSlot]]] = {}
    for constant, slot in zip(unit.constants, unit.slots, strict=True):
        named.setdefault(constant.name, []).append((constant, slot))
        named.setdefault(constant.index, []).append((constant, slot))
    for key, value in (constants or {}).items():
        matches = named.get(key)
        if isinstance(key, bool) or not matches:
            known = ", ".join(f"{c.name} ({c.index})" for c in unit.constants) or "none"
            raise ConstantError(f"no function constant {key!r}; this library has: {known}")
        for constant, slot in matches:
            values[slot.marker] = " = " + _initialiser(constant, slot, value)
    return values


def described(
    records: Sequence[ConstantRecord], ir: str
) -> tuple[tuple[FunctionConstant, ...], tuple[ConstantSlot, ...]]:
    """The constants of a text with what clang says of them in its IR."""
    constants, slots = [], []
    tables = Tables(parse(ir))
    for record in records:
        (row,) = tables.rows(f"__mc_constant_{record.marker}")
        constants.append(FunctionConstant(record.name, row.slot, row.type, record.used and not record.optional))
        slots.append(ConstantSlot(record.marker, row.scalar, row.lanes))
    return tuple(constants), tuple(slots)


def missing(unit: Unit, name: str, module: Module) -> ConstantError | None:
    """The error for a constant without a value that the kernel's code needs."""
    for variable in module.globals.values():
        if not variable.is_external:
            continue
        for constant in unit.constants:
            if plain_name(variable.plain_name) == constant.name:
                which = f"'{constant.name}' (index {constant.index}, {constant.type})"
                return ConstantError(f"kernel '{name}' needs function constant {which}, which has no value")
    return None


def _initialiser(constant: FunctionConstant, slot: ConstantSlot, value: object) -> str:
    if slot.lanes == 1:
        return _scalar(constant, slot.scalar, value)
    items = list(value) if isinstance(value, Sequence) or hasattr(value, "__len__") else None  # type: ignore[call-overload]
    if items is None or len(items) != slot.lanes:
        raise ConstantError(
            f"function constant '{constant.name}' ({constant.type}) needs {slot.lanes} numbers, got {shown(value)}"
        )
    return "{" + ", ".join(_scalar(constant, slot.scalar, item) for item in items) + "}"


def _scalar(constant: FunctionConstant, scalar: str, value: Any) -> str:
    wrong = ConstantError(f"function constant '{constant.name}' is {constant.type}; {shown(value)} does not fit")
    if scalar == "bool":
        if type(value).__name__ in ("bool", "bool_") or (isinstance(value, SupportsIndex) and int(value) in (0, 1)):
            return "true" if value else "false"
        raise wrong
    if scalar in _LIMITS:
        if not isinstance(value, SupportsIndex):
            raise wrong
        number = value.__index__()
        low, high = _LIMITS[scalar]
        if not low <= number <= high:
            raise wrong
        bits = number % (1 << 64)
        return f"static_cast<{_cpp(scalar)}>({bits}ull)"
    if scalar not in _LARGEST or isinstance(value, str) or not isinstance(value, SupportsFloat):
        raise wrong
    real = float(value)
    if math.isnan(real):
        return f'static_cast<{_cpp(scalar)}>(__builtin_nanf(""))'
    if math.isinf(real):
        return f"static_cast<{_cpp(scalar)}>({'-' if real < 0 else ''}__builtin_inff())"
    if abs(real) >= _LARGEST[scalar]:
        raise wrong
    return f"static_cast<{_cpp(scalar)}>({real.hex()})"


def _cpp(scalar: str) -> str:
    names = {"float32": "float", "float64": "float", "float16": "half", "bfloat16": "bfloat"}
    return names.get(scalar, f"{scalar}_t")

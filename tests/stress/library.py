"""Functions of Metal's library that work on one thread's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.stress import arith
from tests.stress.types import Scalar


def _number(value: Any) -> Any:
    if isinstance(value, np.floating) and np.isnan(value):
        raise arith.Undefined("min, max or clamp of NaN")
    return value


def _minimum(t: Scalar, a: Any, b: Any) -> Any:
    return min(_number(a), _number(b))


def _maximum(t: Scalar, a: Any, b: Any) -> Any:
    return max(_number(a), _number(b))


def _absolute(t: Scalar, a: Any) -> Any:
    if t.is_float:
        return abs(a)
    if a == t.low and t.kind == "int":
        raise arith.Undefined("abs of the smallest integer")
    return abs(a)


def _rotate(t: Scalar, a: int, by: int) -> int:
    by %= t.bits
    bits = arith.to_bits(a, t)
    return arith.wrap(t, (bits << by) | (bits >> (t.bits - by)))


def _mulhi(t: Scalar, a: int, b: int) -> int:
    return arith.wrap(t, (a * b) >> t.bits)


def _saturated(op: str) -> Callable[..., Any]:
    def run(t: Scalar, a: int, b: int) -> int:
        value = a + b if op == "+" else a - b
        return max(t.low, min(t.high, value))

    return run


def _reverse(t: Scalar, a: int) -> int:
    return arith.wrap(t, int(format(arith.to_bits(a, t), f"0{t.bits}b")[::-1], 2))


# function -> result for one component; t is the type of the arguments
SCALAR: dict[str, Callable[..., Any]] = {
    "min": _minimum,
    "max": _maximum,
    "clamp": lambda t, a, low, high: min(max(_number(a), low), high),
    "abs": _absolute,
    "fabs": _absolute,
    "fma": arith.fma,
    "popcount": lambda t, a: arith.to_bits(a, t).bit_count(),
    "clz": lambda t, a: t.bits - arith.to_bits(a, t).bit_length(),
    "ctz": lambda t, a: (lambda b: (b & -b).bit_length() - 1 if b else t.bits)(arith.to_bits(a, t)),
    "reverse_bits": _reverse,
    "rotate": _rotate,
    "mulhi": _mulhi,
    "addsat": _saturated("+"),
    "subsat": _saturated("-"),
    "select": lambda t, a, b, c: b if c else a,
    "isnan": lambda t, a: bool(np.isnan(a)),
    "isinf": lambda t, a: bool(np.isinf(a)),
    "floor": lambda t, a: np.floor(a),
    "ceil": lambda t, a: np.ceil(a),
    "trunc": lambda t, a: np.trunc(a),
    "rint": lambda t, a: np.rint(a),
    "sqrt": lambda t, a: np.sqrt(a),
    "copysign": lambda t, a, b: np.copysign(a, b),
}

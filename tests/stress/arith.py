"""Exact scalar arithmetic with the rules of C++ and IEEE 754. What C++ leaves undefined raises `Undefined`.

Integers are Python ints in the range of their type, booleans are bools, floats are np.float32 and np.float16.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tests.stress.types import COMPARISONS, Scalar

Value = Any


class Undefined(Exception):
    """The kernel does something that C++ or Metal gives no meaning to: a fault of the generator, not of the engine."""


FLOAT_TYPES: dict[int, Any] = {16: np.float16, 32: np.float32}
FORMATS = {16: (11, -14, 15), 32: (24, -126, 127)}  # bits of precision, smallest and largest exponent


def wrap(t: Scalar, value: int) -> int:
    """Value modulo 2^bits, in the range of t."""
    value &= (1 << t.bits) - 1
    if t.kind == "int" and value >> (t.bits - 1):
        value -= 1 << t.bits
    return value


def round_fraction(t: Scalar, value: Fraction) -> Value:
    """The float of type t nearest to value, ties to even. Zero is +0."""
    precision, low, high = FORMATS[t.bits]
    if value == 0:
        return FLOAT_TYPES[t.bits](0.0)
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, low) - (precision - 1))
    rounded = round(value / quantum) * quantum
    if abs(rounded) >= Fraction(2) ** (high + 1):
        return FLOAT_TYPES[t.bits](np.inf if rounded > 0 else -np.inf)
    if rounded == 0:
        return FLOAT_TYPES[t.bits](0.0 if value > 0 else -0.0)
    return FLOAT_TYPES[t.bits](float(rounded))


def convert(value: Value, src: Scalar, dst: Scalar) -> Value:
    """`dst(value)`."""
    if src == dst:
        return value
    if dst.kind == "bool":
        return bool(value != 0)
    if dst.is_float:
        if src.is_float:
            return FLOAT_TYPES[dst.bits](value)
        if -2048 <= value <= 2048:  # exact in every float type
            return FLOAT_TYPES[dst.bits](int(value))
        return round_fraction(dst, Fraction(int(value)))
    if not src.is_float:
        return wrap(dst, int(value))
    if not np.isfinite(value):
        raise Undefined(f"{value} converted to {dst.name}")
    whole = int(value)
    if not dst.low <= whole <= dst.high:
        raise Undefined(f"{value} does not fit {dst.name}")
    return whole


def _divide(t: Scalar, a: int, b: int) -> int:
    if b == 0:
        raise Undefined("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _integer(op: str, t: Scalar, a: int, b: int) -> int:
    if op == "/":
        value = _divide(t, a, b)
    elif op == "%":
        if t.kind == "int" and a == t.low and b == -1:
            raise Undefined("remainder of the smallest integer by -1")
        value = a - _divide(t, a, b) * b
    else:
        value = _INTEGER[op](a, b)
    if t.kind == "uint":
        return value & ((1 << t.bits) - 1)
    if not t.low <= value <= t.high:
        raise Undefined(f"signed overflow in {a} {op} {b}")
    return value


_INTEGER: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
}


def shift(op: str, t: Scalar, a: int, amount: int) -> int:
    """t is the promoted type of the left operand."""
    if not 0 <= amount < t.bits:
        raise Undefined(f"shift of {t.name} by {amount}")
    if op == ">>":
        return a >> amount
    if t.kind == "int" and (a < 0 or (a << amount) > t.high):
        raise Undefined(f"left shift of {a} by {amount}")
    return wrap(t, a << amount)


def binary(op: str, t: Scalar, a: Value, b: Value) -> Value:
    """`a op b`, where both are already of the common type t. Shifts and && || are not for here."""
    if op in COMPARISONS:
        return _COMPARE[op](a, b)
    if t.is_int:
        return _integer(op, t, a, b)
    if op == "+":
        return a + b
    if op == "-":
        return a - b
    if op == "*":
        return a * b
    assert op == "/", op
    return np.divide(a, b)


def element_binary(op: str, t: Scalar, a: Value, b: Value) -> Value:
    """One component of a vector operation: nothing is promoted, narrow integers wrap."""
    if op in ("<<", ">>"):
        if not 0 <= b < t.bits:
            raise Undefined(f"shift of {t.name} by {b}")
        if op == "<<" and t.kind == "int" and t.bits >= 32:
            raise Undefined("left shift of a signed vector")
        return wrap(t, a << b if op == "<<" else a >> b)
    if t.is_int and t.bits < 32 and op in _INTEGER:
        return wrap(t, _INTEGER[op](a, b))
    return binary(op, t, a, b)


def unary(op: str, t: Scalar, a: Value) -> Value:
    """`op a`, a already promoted to t."""
    if op == "!":
        return not a
    if op == "~":
        return wrap(t, ~int(a))
    if op == "+":
        return a
    assert op == "-", op
    if t.is_int:
        return _integer("-", t, 0, a)
    return -a


def fma(t: Scalar, a: Value, b: Value, c: Value) -> Value:
    """a * b + c rounded once."""
    if np.isfinite(a) and np.isfinite(b) and np.isfinite(c):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if exact != 0:
            return round_fraction(t, exact)
    # Not finite, or a zero whose sign follows the rule of addition: doubles hold all of these exactly.
    return FLOAT_TYPES[t.bits](float(a) * float(b) + float(c))


def to_bits(value: Value, t: Scalar) -> int:
    if t.is_float:
        return int(np.array(value, t.dtype).view(f"uint{t.bits}"))
    return int(value) & ((1 << t.bits) - 1)


def from_bits(bits: int, t: Scalar) -> Value:
    if t.is_float:
        return np.array(bits, f"uint{t.bits}").view(t.dtype)[()]
    return wrap(t, bits)

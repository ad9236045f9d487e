"""Exact integer arithmetic on arrays: one number for each thread.

A number is held modulo 2^64 in a uint64, extended by its sign where its type has one. Sums, differences and products
are then right modulo 2^64 and are cut to the type's width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.stress.types import COMPARISONS, Scalar

Words = np.ndarray[Any, np.dtype[np.uint64]]


class Undefined(Exception):
    """The kernel does what C++ gives no meaning to."""


def wrap(t: Scalar, v: Words) -> Words:
    """Cut to the width of t, then extended to 64 bits again."""
    if t.kind == "bool":
        return (v != 0).astype(np.uint64)
    kind = "i" if t.kind == "int" else "u"
    out: Words = v.astype(f"{kind}{t.bits // 8}").astype(f"{kind}8").view(np.uint64)
    return out


def signed(v: Words) -> np.ndarray[Any, np.dtype[np.int64]]:
    return v.view(np.int64)


def compare(op: str, t: Scalar, a: Words, b: Words) -> Words:
    x, y = (signed(a), signed(b)) if t.kind == "int" else (a, b)
    functions = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
    functions |= {"==": np.equal, "!=": np.not_equal}
    out: Words = functions[op](x, y).astype(np.uint64)
    return out


def overflows(op: str, t: Scalar, a: Words, b: Words) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where `a op b` is not in the range of a signed type."""
    if t.bits == 64:
        x, y = signed(a).astype(object), signed(b).astype(object)
    else:
        x, y = signed(a), signed(b)  # 32 bits times 32 bits fit
    exact = x + y if op == "+" else x - y if op == "-" else x * y
    out: np.ndarray[Any, np.dtype[np.bool_]] = ((exact < t.low) | (exact > t.high)).astype(bool)
    return out


def binary(op: str, t: Scalar, a: Words, b: Words) -> tuple[Words, np.ndarray[Any, np.dtype[np.bool_]] | None]:
    """`a op b` for operands that are of the common type t already; and where it has no meaning, if anywhere."""
    if op in COMPARISONS:
        return compare(op, t, a, b), None
    if op in ("&", "|", "^"):
        return {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}[op](a, b), None
    if op in ("/", "%"):
        if t.kind == "int":
            raise NotImplementedError("signed division")
        zero = b == 0
        safe = np.where(zero, np.uint64(1), b)
        return (np.where(zero, np.uint64(0), a // safe) if op == "/" else np.where(zero, a, a % safe)), zero
    bad = overflows(op, t, a, b) if t.kind == "int" else None
    with np.errstate(over="ignore"):
        raw = a + b if op == "+" else a - b if op == "-" else a * b
    return wrap(t, raw), bad


def shift(op: str, t: Scalar, a: Words, amount: Words) -> tuple[Words, np.ndarray[Any, np.dtype[np.bool_]]]:
    """The amount's low bits count, as they do on the engine; C++ gives more no meaning."""
    bits = np.uint64(t.bits)
    bad = amount >= bits
    by = amount & (bits - np.uint64(1))
    if op == "<<":
        return wrap(t, a << by), bad
    if t.kind == "int":
        return (signed(a) >> by.astype(np.int64)).view(np.uint64), bad
    return a >> by, bad

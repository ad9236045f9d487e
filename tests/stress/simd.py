"""Functions of a simdgroup over its active lanes, as Metal's specification words them.

`values[lane]` holds an argument's value for every lane of `lanes` (the active ones, in order).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tests.stress import arith
from tests.stress.types import INT, Scalar, Type, Vector

UNDEF = "undefined"  # what a shuffle reads from a lane that is not active; using it raises
Values = list[Any]


def combine(op: str, t: Scalar, a: Any, b: Any) -> Any:
    if op in ("min", "max"):
        return (a if a <= b else b) if op == "min" else (a if a >= b else b)
    symbol = {"sum": "+", "product": "*", "and": "&", "or": "|", "xor": "^"}[op]
    if t.is_int:
        whole = {"+": a + b, "*": a * b}.get(symbol)
        if whole is None:
            whole = {"&": a & b, "|": a | b, "^": a ^ b}[symbol]
        return arith.wrap(t, whole)
    return arith.binary(symbol, t, a, b)


def by_component(type_: Type, op: str, a: Any, b: Any) -> Any:
    if isinstance(type_, Vector):
        return tuple(combine(op, type_.element, x, y) for x, y in zip(a, b, strict=True))
    assert isinstance(type_, Scalar)
    return combine(op, type_, a, b)


def neutral(op: str, type_: Type) -> Any:
    if isinstance(type_, Vector):
        return (neutral(op, type_.element),) * type_.size
    assert isinstance(type_, Scalar)
    return arith.convert(1 if op == "product" else 0, INT, type_)


def reduction(op: str, type_: Type, lanes: list[int], values: Values) -> Values:
    total = functools.reduce(lambda a, b: by_component(type_, op, a, b), [values[lane] for lane in lanes])
    return spread(lanes, lambda lane: total)


def prefix(op: str, inclusive: bool, type_: Type, lanes: list[int], values: Values) -> Values:
    out: Values = [None] * 32
    total = neutral(op, type_)
    for lane in lanes:
        after = by_component(type_, op, total, values[lane])
        out[lane] = after if inclusive else total
        total = after
    return out


def spread(lanes: list[int], of: Callable[[int], Any]) -> Values:
    out: Values = [None] * 32
    for lane in lanes:
        out[lane] = of(lane)
    return out


def read_from(lanes: list[int], values: Values, source: Callable[[int], int]) -> Values:
    active = set(lanes)
    return spread(lanes, lambda lane: values[source(lane)] if source(lane) in active else UNDEF)


def call(function: str, type_: Type, lanes: list[int], args: list[Values]) -> Values:
    """type_ is the type of the result."""
    kind, _, name = function.partition("_")
    if kind == "quad":
        return quad(name, type_, lanes, args)
    v = args[0] if args else []
    if name in ("sum", "product", "min", "max", "and", "or", "xor"):
        return reduction(name, type_, lanes, v)
    if name.startswith("prefix_"):
        _, inclusive, op = name.split("_")
        return prefix(op, inclusive == "inclusive", type_, lanes, v)
    if name in ("any", "all"):
        chosen = [bool(v[lane]) for lane in lanes]
        return spread(lanes, lambda lane: any(chosen) if name == "any" else all(chosen))
    if name == "ballot":
        bits = sum(1 << lane for lane in lanes if v[lane])
        return spread(lanes, lambda lane: bits)
    if name == "is_first":
        return spread(lanes, lambda lane: lane == lanes[0])
    if name == "broadcast_first":
        return spread(lanes, lambda lane: v[lanes[0]])
    by = args[1]
    if name in ("shuffle", "broadcast"):
        return read_from(lanes, v, lambda lane: int(by[lane]) % 32)
    if name == "shuffle_xor":
        return read_from(lanes, v, lambda lane: (lane ^ int(by[lane])) % 32)
    if name == "shuffle_up":
        return read_from(lanes, v, lambda lane: lane if lane < by[lane] else lane - int(by[lane]))
    if name == "shuffle_down":
        return read_from(lanes, v, lambda lane: lane if lane + by[lane] > 31 else lane + int(by[lane]))
    if name == "shuffle_rotate_up":
        return read_from(lanes, v, lambda lane: (lane - int(by[lane])) % 32)
    if name == "shuffle_rotate_down":
        return read_from(lanes, v, lambda lane: (lane + int(by[lane])) % 32)
    raise AssertionError(function)


def quad(name: str, type_: Type, lanes: list[int], args: list[Values]) -> Values:
    """Four lanes in a row are a quad."""
    out: Values = [None] * 32
    for first in range(0, 32, 4):
        mine = [lane for lane in lanes if first <= lane < first + 4]
        if not mine:
            continue
        v = args[0]
        if name in ("sum", "product", "min", "max", "and", "or", "xor"):
            part = reduction(name, type_, mine, v)
        elif name == "shuffle_xor":
            part = read_from(mine, v, lambda lane: lane ^ (int(args[1][lane]) & 3))
        else:
            assert name in ("broadcast", "shuffle"), name
            part = read_from(mine, v, lambda lane, first=first: first + (int(args[1][lane]) & 3))  # type: ignore[misc]
        for lane in mine:
            out[lane] = part[lane]
    return out

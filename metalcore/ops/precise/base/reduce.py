"""Sums over rows in float32, as pairs of floats, or without error: which kernels run, in how many blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from metalcore.ops.base.check import check_float, dtype_name, refuse
from metalcore.ops.base.launch import accumulator
from metalcore.runtimes.kernel import Items, Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

PRECISIONS = ("float32", "float-float", "exact")
_CONSTANTS = ("is_sum", "is_norm", "has_low", "is_split")
REDUCE = Kernel("precise_reduce", "precise_reduce", (*_CONSTANTS, "is_residual", "has_pair", "is_plain"))
REDUCE_MERGE = Kernel("precise_reduce", "precise_reduce_merge", ("is_norm", "has_low"))
EXACT = Kernel("precise_exact", "precise_exact", (*_CONSTANTS, "is_residual", "has_pair"))
EXACT_MERGE = Kernel("precise_exact", "precise_exact_merge", ("is_norm", "has_low"))
GRADIENT = Kernel("precise_gradient", "precise_gradient", ("is_sum", "is_norm"))
REDUCE_PARTIAL, EXACT_PARTIAL = 3, 23  # what a block leaves: a pair and its exponent; limbs and three counts


def check_precision(op: str, precision: str, pair: bool, *arrays: tuple[str, Any]) -> None:
    """Arrays of one floating-point dtype, and a precision that it has."""
    if precision not in PRECISIONS:
        refuse(op, "precision", "'float32', 'float-float' or 'exact'", repr(precision))
    if pair and precision == "float32":
        refuse(op, "precision", "'float-float' or 'exact' where a pair is asked for", repr(precision))
    for name, array in arrays:
        dtype = check_float(op, name, array)
        if dtype == "float64" and precision == "exact":
            refuse(op, name, "float32, float16 or bfloat16 where precision='exact'", "of dtype float64")
        if dtype != dtype_name(arrays[0][1]):
            refuse(op, name, f"{dtype_name(arrays[0][1])} as {arrays[0][0]} is", f"of dtype {dtype}")


class Rows(NamedTuple):
    """Sum r is over row r // y_rows of x and row r % y_rows of y, in batches of x_rows and y_rows rows; a batch of x
    begins x_step elements after the one before (0: all have the same)."""

    sums: int
    width: int
    x_rows: int = 1
    y_rows: int = 1
    x_step: int = 0
    y_step: int = 0

    @staticmethod
    def alike(sums: int, width: int) -> Rows:
        """x and y have a row for each sum."""
        return Rows(sums, width, 1, 1, width, width)


def reduce(
    run: Runtime,
    kind: str,
    x: Any,
    y: Any,
    rows: Rows,
    shape: tuple[int, ...],
    precision: str,
    pair: bool,
    y_low: Any = None,
    start: Any = None,
) -> tuple[Any, Any]:
    """High and low halves, of this shape, of every sum; the low one has no elements where it is not asked for. `kind`
    is "sum", "dot" or "norm". With `start` the result is start - the sum; with `y_low` y is a pair."""
    dtype = run.dtype(x)
    wide, chosen = accumulator(dtype), policy("precise", run.family, dtype)
    is_exact, threads = precision == "exact", chosen["threads"]
    block = max(1, min(rows.width, chosen["block"]))
    blocks = max(1, -(-rows.width // block))
    is_split, is_norm = blocks > 1, kind == "norm"
    places, each = rows.sums * blocks, threads // 32
    partial = Out((0,), "int64" if is_exact else wide)
    if is_split:
        partial = Out((places * (EXACT_PARTIAL if is_exact else REDUCE_PARTIAL),), partial.dtype)
    high, low = Out(shape, wide), Out(shape if pair else (0,), wide)
    nothing = Out((0,), wide)
    constants: Items = (kind == "sum", is_norm, pair, is_split, start is not None, y_low is not None)
    if not is_exact:
        constants += (precision == "float32",)
    arguments = dict(rows._asdict(), x=x, y=y, partial=partial, high=nothing if is_split else high)
    arguments |= dict(low=nothing if is_split else low, block=block, blocks=blocks, y_low=y_low, start=start)
    kernel, merge = (EXACT, EXACT_MERGE) if is_exact else (REDUCE, REDUCE_MERGE)
    parts, *found = run.launch(kernel, (dtype,), constants, arguments, (-(-places // each),), (threads,))
    if is_split:
        arguments = dict(partial=parts, high=high, low=low, sums=rows.sums, blocks=blocks)
        groups = (-(-rows.sums // each),)
        found = run.launch(merge, (wide,), (is_norm, pair), arguments, groups, (threads,))
    return found[0], found[1]


def gradient(run: Runtime, kind: str, grad: Any, norm: Any, x: Any, sums: int, width: int) -> Any:
    """The gradient of every element: `grad` has a number for each sum, `x` is what it is multiplied with."""
    dtype = run.dtype(x)
    threads = policy("precise", run.family, dtype)["gradient_threads"]
    arguments = dict(grad=grad, norm=norm, x=x, dx=Out(tuple(x.shape), dtype), width=width)
    groups = (-(-width // threads), sums, 1)
    (dx,) = run.launch(GRADIENT, (dtype,), (kind == "sum", kind == "norm"), arguments, groups, (threads, 1, 1))
    return dx


def last(array: Any, dims: Sequence[int]) -> Any:
    """The array with these dimensions moved to the end, in their order."""
    rank = len(array.shape)
    order = [d for d in range(rank) if d not in dims] + list(dims)
    return permuted(array, order)


def back(array: Any, dims: Sequence[int]) -> Any:
    """The reverse of `last`."""
    rank = len(array.shape)
    order = [d for d in range(rank) if d not in dims] + list(dims)
    return permuted(array, [order.index(d) for d in range(rank)])


def permuted(array: Any, order: list[int]) -> Any:
    """By exchanges of two dimensions, which every framework has."""
    order = list(order)
    current = list(range(len(order)))
    for place, wanted in enumerate(order):
        at = current.index(wanted)
        if at != place:
            array = array.swapaxes(place, at)
            current[place], current[at] = current[at], current[place]
    return array


def reduced_shape(shape: Sequence[int], dims: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)


def size(shape: Sequence[int], dims: Sequence[int]) -> int:
    return math.prod(shape[d] for d in dims)

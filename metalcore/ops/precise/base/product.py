"""Products of matrices with more digits: kernels/precise_matmul.metal, and for few columns the kernels of sums."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.launch import accumulator
from metalcore.ops.precise.base.reduce import Rows, reduce
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

MATMUL = Kernel("precise_matmul", "precise_matmul", ("is_residual", "has_pair", "has_low", "is_plain"))
PACK = Kernel("precise_matmul", "precise_pack")
EXACT = Kernel("precise_matmul", "precise_matmul_exact", ("is_residual", "has_pair", "has_low"))


def check_product(op: str, a: Any, b: Any) -> None:
    """Shapes that can be multiplied: (..., m, k) and (..., k, n) with equal leading dimensions, or none on one side."""
    for name, array in (("a", a), ("b", b)):
        if len(array.shape) < 2:
            refuse(op, name, "a matrix or a batch of them", f"of shape {tuple(array.shape)}")
    if a.shape[-1] != b.shape[-2]:
        refuse(op, "b", f"a matrix of {a.shape[-1]} rows, as a has columns", f"of shape {tuple(b.shape)}")
    one, other = tuple(a.shape[:-2]), tuple(b.shape[:-2])
    if one and other and one != other:
        refuse(op, "b", f"a matrix, or a batch of shape {one} as a is", f"of shape {tuple(b.shape)}")


def matmul(run: Runtime, a: Any, b: Any, *, precision: str, pair: bool = False) -> tuple[Any, Any]:
    """a @ b as (high, low); the low half has no elements unless `pair`."""
    leading = tuple(a.shape[:-2]) or tuple(b.shape[:-2])
    rows, inner = a.shape[-2:]
    columns = b.shape[-1]
    a, batch = run.contiguous(a), math.prod(leading)
    a_step, b_step = (rows * inner if len(a.shape) > 2 else 0), (inner * columns if len(b.shape) > 2 else 0)
    shape = (*leading, rows, columns)
    if columns < policy("precise", run.family, run.dtype(a))["few_columns"]:
        turned = run.contiguous(b.swapaxes(-1, -2))
        sums = Rows(batch * rows * columns, inner, max(rows, 1), max(columns, 1), a_step, b_step)
        return reduce(run, "dot", a, turned, sums, shape, precision, pair)
    return _launch(run, a, run.contiguous(b), None, None, shape, precision, pair)


def residual(run: Runtime, a: Any, x: Any, x_low: Any, b: Any, *, precision: str) -> Any:
    """b - a (x + x_low) of batches with equal leading dimensions, computed with more digits, then rounded once."""
    a, b = run.contiguous(a), run.contiguous(b)
    rows, columns = b.shape[-2:]
    if columns < policy("precise", run.family, run.dtype(a))["few_columns"]:
        inner = a.shape[-1]
        turned, turned_low = (None if y is None else run.contiguous(y.swapaxes(-1, -2)) for y in (x, x_low))
        sums = Rows(math.prod(b.shape), inner, max(rows, 1), max(columns, 1), rows * inner, columns * inner)
        return reduce(run, "dot", a, turned, sums, tuple(b.shape), precision, False, turned_low, b)[0]
    x_low = None if x_low is None else run.contiguous(x_low)
    return _launch(run, a, run.contiguous(x), x_low, b, tuple(b.shape), precision, False)[0]


def _launch(
    run: Runtime,
    a: Any,
    b: Any,
    b_low: Any,
    start: Any,
    shape: tuple[int, ...],
    precision: str,
    pair: bool,
) -> tuple[Any, Any]:
    *leading, rows, columns = shape
    dtype, inner = run.dtype(a), a.shape[-1]
    wide, chosen = accumulator(dtype), policy("precise", run.family, dtype)
    threads, each = chosen["threads"], chosen["rows_each"]
    panels = _packed(run, b)
    panels_low = panels if b_low is None else _packed(run, b_low)
    arguments = dict(a=a, b=panels, b_low=panels_low, start=panels if start is None else start)
    arguments |= dict(high=Out(shape, wide), low=Out(shape if pair else (0,), wide), rows=rows)
    arguments |= dict(inner=inner, columns=columns, a_step=rows * inner if len(a.shape) > 2 else 0)
    arguments |= dict(b_step=-(-columns // 32) * 32 * inner if len(b.shape) > 2 else 0, each=each)
    constants: tuple[bool, ...] = (start is not None, b_low is not None, pair)
    kernel = EXACT
    if precision != "exact":
        kernel, constants = MATMUL, (*constants, precision == "float32")
    groups = (-(-columns // 32), -(-rows // (each * threads // 32)), math.prod(leading))
    high, low = run.launch(kernel, (dtype,), constants, arguments, groups, (threads, 1, 1))
    return high, low


def _packed(run: Runtime, b: Any) -> Any:
    """Panels of 32 columns, one after the other, padded with zeros."""
    *leading, inner, columns = b.shape
    dtype, batch, panels = run.dtype(b), math.prod(leading), -(-columns // 32)
    each = policy("precise", run.family, dtype)["pack_rows"]
    arguments = dict(b=b, panels=Out((batch * panels * inner * 32,), dtype), inner=inner, columns=columns, each=each)
    (packed,) = run.launch(PACK, (dtype,), (), arguments, (panels, -(-inner // each), batch), (32, 1, 1))
    return packed

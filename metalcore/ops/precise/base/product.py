"""Products of matrices with more digits: kernels/precise_matmul.metal, and for few columns the kernels of sums."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.launch import accumulator
from metalcore.ops.precise.base.reduce import Rows, reduce
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy

MATMUL = Kernel("precise_matmul", "precise_matmul", ("is_residual", "has_pair", "has_low", "is_plain"))
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


def matmul(run: Any, a: Any, b: Any, *, precision: str, pair: bool = False) -> tuple[Any, Any]:
    """a @ b as (high, low); the low half has no elements unless `pair`."""
    leading = tuple(a.shape[:-2]) or tuple(b.shape[:-2])
    rows, inner = a.shape[-2:]
    columns = b.shape[-1]
    a, batch = run.contiguous(a), math.prod(leading)
    a_step, b_step = (rows * inner if a.shape[:-2] else 0), (inner * columns if b.shape[:-2] else 0)
    shape = (*leading, rows, columns)
    if columns < policy("precise", run.family, run.dtype(a))["few_columns"]:
        turned = run.contiguous(b.swapaxes(-1, -2))
        sums = Rows(batch * rows * columns, inner, max(rows, 1), max(columns, 1), a_step, b_step)
        return reduce(run, "dot", a, turned, sums, shape, precision, pair)
    return _launch(run, a, run.contiguous(b), None, None, shape, a_step, b_step, precision, pair)


def residual(run: Any, a: Any, x: Any, x_low: Any, b: Any, *, precision: str) -> Any:
    """b - a (x + x_low) of batches with equal leading dimensions, computed with more digits, then rounded."""
    rows, inner = a.shape[-2:]
    shape = tuple(b.shape)
    a_step, b_step = rows * inner, inner * shape[-1]
    arrays = [run.contiguous(array) for array in (a, x, x_low, b)]
    return _launch(run, *arrays, shape, a_step, b_step, precision, False)[0]


def _launch(
    run: Any,
    a: Any,
    b: Any,
    b_low: Any,
    start: Any,
    shape: tuple[int, ...],
    a_step: int,
    b_step: int,
    precision: str,
    pair: bool,
) -> tuple[Any, Any]:
    *leading, rows, columns = shape
    dtype = run.dtype(a)
    wide, chosen = accumulator(dtype), policy("precise", run.family, dtype)
    threads, each = chosen["threads"], chosen["rows_each"]
    outs = (Out(shape, wide), Out(shape if pair else (0,), wide))
    numbers = (rows, a.shape[-1], columns, a_step, b_step, each)
    arguments = (a, b, b if b_low is None else b_low, b if start is None else start, *outs, *numbers)
    constants: tuple[bool, ...] = (start is not None, b_low is not None, pair)
    kernel = EXACT
    if precision != "exact":
        kernel, constants = MATMUL, (*constants, precision == "float32")
    groups = (-(-columns // 32), -(-rows // (each * threads // 32)), math.prod(leading))
    high, low = run.launch(kernel, (dtype,), constants, arguments, groups, (threads, 1, 1))
    return high, low

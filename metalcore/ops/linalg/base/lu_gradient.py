"""Gradients of L U: kernels/linalg/lu_parts.metal, products and triangular systems between. Formulas are torch's."""

from __future__ import annotations

from typing import Any

from metalcore.ops.linalg.base.lu import BLOCK
from metalcore.ops.linalg.base.matrix import LANES, Batch, capacity, lane_groups
from metalcore.ops.linalg.base.product import matmul
from metalcore.ops.linalg.base.triangular import solve_triangular
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

UNPACK = Kernel("linalg/lu_parts", "lu_unpack", ("has_permutation",))
PARTS_IN_LANES = Kernel("linalg/lu_parts", "lu_parts_lanes", ("has_permutation",))
JOIN = Kernel("linalg/lu_parts", "join_triangles", ("is_wide", "is_tall"))
PERMUTE = Kernel("linalg/lu_parts", "permute_rows", ("is_wide", "is_tall", "is_forward"))


def unpack(run: Runtime, factors: Any, pivots: Any) -> tuple[Any, Any, Any]:
    """P, L and U as arrays of their own; P has no elements where `pivots` is None."""
    batch, dtype = Batch.of(factors), run.dtype(factors)
    rows, columns, steps = batch.rows, batch.columns, min(batch.rows, batch.columns)
    shape = (0,) if pivots is None else batch.shape(rows, rows)
    outs = dict(p=Out(shape, dtype), l=Out(batch.shape(rows, steps), dtype), u=Out(batch.shape(steps, columns), dtype))
    arguments = dict(factors=factors, pivots=pivots, **outs, row_count=rows, column_count=columns)
    groups = (-(-rows // BLOCK), batch.number)
    p, lower, upper = run.launch(UNPACK, (dtype,), (pivots is not None,), arguments, groups, (LANES,))
    return p, lower, upper


def parts_in_lanes(run: Runtime, a: Any, exchanges: bool) -> tuple[Any, ...]:
    """P, L, U and pivots of small matrices, one to a thread; P has no elements where rows are not exchanged."""
    batch, dtype = Batch.of(a), run.dtype(a)
    rows, columns, steps = batch.rows, batch.columns, min(batch.rows, batch.columns)
    shape = batch.shape(rows, rows) if exchanges else (0,)
    factors = dict(
        p=Out(shape, dtype), l=Out(batch.shape(rows, steps), dtype), u=Out(batch.shape(steps, columns), dtype)
    )
    arguments = dict(a=a, **factors, pivots=Out(batch.shape(steps), "int32"))
    arguments |= dict(count=batch.number, row_count=rows, column_count=columns)
    types, groups = (dtype, capacity(max(rows, columns))), lane_groups(batch.number)
    return tuple(run.launch(PARTS_IN_LANES, types, (exchanges,), arguments, groups, (LANES,)))


def join(run: Runtime, lower: Any, upper: Any, other: Any = None, is_wide: bool = False, is_tall: bool = False) -> Any:
    """What is below the diagonal from `lower`, the rest from `upper`; `other` is subtracted from one of the two."""
    batch, dtype = Batch.of(lower), run.dtype(lower)
    n = batch.rows
    arguments = dict(lower=lower, upper=upper, other=other, joined=Out(batch.shape(n, n), dtype), size=n)
    (joined,) = run.launch(JOIN, (dtype,), (is_wide, is_tall), arguments, (n, batch.number), (LANES,))
    return joined


def lu_gradient(run: Runtime, lower: Any, upper: Any, pivots: Any, dlower: Any, dupper: Any) -> Any:
    """The gradient of A = P L U: P L^-T (tril(L^T dL, -1) + triu(dU U^T)) U^-T for a square A. What is beside or below
    the square part has a share of its own, and takes one from the triangles. What is not in the triangles of dL and dU
    is not looked at."""
    batch = Batch.of(lower)
    rows, columns, steps = batch.rows, upper.shape[-1], lower.shape[-1]
    is_wide, is_tall = columns > steps, rows > steps
    # blocks[i]: the square one and the rest
    l_square, l_rest = _rows(run, lower, steps)
    dl_square, dl_rest = _rows(run, dlower, steps)
    u_square, u_rest = _columns(run, upper, steps)
    du_square, du_rest = _columns(run, dupper, steps)
    rest = other = None
    if is_wide:
        rest = solve_triangular(run, l_square, du_rest, upper=False, transpose=True, unit=True)
        other = matmul(run, du_rest, u_rest, transpose_b=True)
    elif is_tall:
        rest = solve_triangular(run, u_square, dl_rest, upper=True, transpose=True, left=False)
        other = matmul(run, l_rest, dl_rest, transpose_a=True)
    middle = join(
        run,
        matmul(run, l_square, dl_square, transpose_a=True),
        matmul(run, du_square, u_square, transpose_b=True),
        *(other, is_wide, is_tall),
    )
    middle = solve_triangular(run, l_square, middle, upper=False, transpose=True, unit=True)
    middle = solve_triangular(run, u_square, middle, upper=True, transpose=True, left=False)
    out = Out(batch.shape(rows, columns), run.dtype(lower))
    arguments = dict(square=middle, rest=rest, pivots=pivots, out=out)
    arguments |= dict(row_count=rows, column_count=columns, step_count=steps, is_shared=0)
    groups = (-(-rows // BLOCK), batch.number)
    (gradient,) = run.launch(PERMUTE, (run.dtype(lower),), (is_wide, is_tall, False), arguments, groups, (LANES,))
    return gradient


def permute(run: Runtime, x: Any, pivots: Any, forward: bool) -> Any:
    """P x, or P^T x where `forward`: as rows were exchanged. One permutation may serve for all x."""
    batch, dtype = Batch.of(x), run.dtype(x)
    numbers = dict(
        row_count=batch.rows, column_count=batch.columns, step_count=batch.rows, is_shared=int(len(pivots.shape) == 1)
    )
    arguments = dict(square=x, rest=None, pivots=pivots, out=Out(tuple(x.shape), dtype), **numbers)
    groups = (-(-batch.rows // BLOCK), batch.number)
    (out,) = run.launch(PERMUTE, (dtype,), (False, False, forward), arguments, groups, (LANES,))
    return out


def solve_gradient(run: Runtime, factors: Any, pivots: Any, x: Any, grad: Any, transposed: bool) -> tuple[Any, Any]:
    """Gradients of LU and of B, where A X = B, or A^T X = B, was solved with A = P L U."""
    _, lower, upper = unpack(run, factors, None)
    if transposed:
        z, g = permute(run, x, pivots, True), permute(run, grad, pivots, True)
        w = matmul(run, lower, z, transpose_a=True)
        g = solve_triangular(run, factors, g, upper=False, unit=True)
        dlower = matmul(run, z, g, transpose_b=True, alpha=-1.0)
        db = solve_triangular(run, factors, g, upper=True)
        dupper = matmul(run, w, db, transpose_b=True, alpha=-1.0)
    else:
        w = solve_triangular(run, factors, grad, upper=True, transpose=True)
        dupper = matmul(run, w, x, transpose_b=True, alpha=-1.0)
        v = solve_triangular(run, factors, w, upper=False, transpose=True, unit=True)
        dlower = matmul(run, v, matmul(run, upper, x), transpose_b=True, alpha=-1.0)
        db = permute(run, v, pivots, False)
    return join(run, dlower, dupper), db


def _rows(run: Runtime, array: Any, count: int) -> tuple[Any, Any]:
    """The first rows and the rest, contiguous."""
    if array.shape[-2] == count:
        return array, None
    return run.contiguous(array[..., :count, :]), run.contiguous(array[..., count:, :])


def _columns(run: Runtime, array: Any, count: int) -> tuple[Any, Any]:
    if array.shape[-1] == count:
        return array, None
    return run.contiguous(array[..., :count]), run.contiguous(array[..., count:])

"""L U with partial pivoting and what is solved with it: kernels/linalg/lu.metal and solve.metal. The ways are chosen by
shape: small matrices of a batch one to a thread, else panels of 32 columns."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.base.launch import column_sum
from metalcore.ops.linalg.base.batches import broadcast
from metalcore.ops.linalg.base.matrix import LANES, Batch, capacity, lane_groups
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

IN_LANES = Kernel("linalg/lu", "lu_lanes", ("exchanges",))
PANEL = Kernel("linalg/lu", "lu_panel", ("exchanges",))
APPLY = Kernel("linalg/lu", "lu_apply", ("copies",))
SOLVE_IN_LANES = Kernel("linalg/solve", "solve_lanes", ("is_transposed", "is_inverse"))
SOLVE_FACTORED = Kernel("linalg/solve", "solve_factored", ("is_transposed", "is_inverse"))
BLOCK = 32  # BLOCK in the kernels


def is_for_lanes(run: Runtime, dtype: str, count: int, rows: int, columns: int) -> bool:
    """Whether each thread takes a matrix."""
    chosen = policy("linalg_lu", run.family, dtype)
    small = max(rows, columns) <= chosen["lanes"] and count >= chosen["least"]
    return small or 0 in (count, rows, columns)


def factor(run: Runtime, a: Any, exchanges: bool = True) -> tuple[Any, Any, Any]:
    """L and U in one array, pivots from 1, and info, of a contiguous array of matrices."""
    batch, dtype = Batch.of(a), run.dtype(a)
    rows, columns, steps = batch.rows, batch.columns, min(batch.rows, batch.columns)
    pivots, info = Out(batch.shape(steps), "int32"), Out(batch.leading, "int32")
    if is_for_lanes(run, dtype, batch.number, rows, columns):
        size = max(rows, columns) if steps and batch.number else 0
        numbers = dict(count=batch.number, row_count=rows if steps else 0, column_count=columns if steps else 0)
        outs = dict(factors=Out(tuple(a.shape), dtype), pivots=pivots, info=info)
        types, groups = (dtype, capacity(size)), lane_groups(batch.number)
        return _three(run.launch(IN_LANES, types, (exchanges,), dict(a=a, **outs, **numbers), groups, (LANES,)))
    threads = (policy("linalg_lu", run.family, dtype)["threads"],)
    chunks = -(-columns // BLOCK)
    factors: Any = a
    known: Any = None
    found: Any = None
    for begin in range(0, steps, BLOCK):
        copies = begin == 0 or not run.writes_in_place
        panel = Out(batch.shape(rows - begin, BLOCK), dtype)
        given = dict(a=factors, pivots_before=known, panels=panel)
        given |= dict(pivots=pivots if copies else known, info=info, rows=rows, columns=columns, begin=begin)
        panels, *other, found = run.launch(PANEL, (dtype,), (exchanges,), given, (batch.number,), threads)
        known = other[0] if other else known
        if columns == BLOCK:
            return panels, known, found
        out = Out(tuple(a.shape), dtype) if copies else factors
        changed = dict(before=factors, panels=panels, pivots=known, after=out, rows=rows, columns=columns, begin=begin)
        made = run.launch(APPLY, (dtype,), (copies,), changed, (chunks, batch.number), threads)
        factors = made[0] if made else factors
    return factors, known, found


def _three(values: list[Any]) -> tuple[Any, Any, Any]:
    first, second, third = values
    return first, second, third


def solve_factored(run: Runtime, factors: Any, pivots: Any, b: Any, transposed: bool, inverse: bool = False) -> Any:
    """X of A X = b, or of A^T X = b, or the inverse. One matrix may serve for all b."""
    batch, dtype, n = Batch.of(factors if inverse else b), run.dtype(factors), factors.shape[-1]
    sides = n if inverse else b.shape[-1]
    is_shared = int(len(factors.shape) == 2 and not inverse)
    threads = policy("linalg_lu", run.family, dtype)["threads"]
    chunks = -(-sides // BLOCK) if n else 0
    groups = (chunks, batch.number)
    outs = dict(x=Out(batch.shape(n, sides), dtype), work=Out((batch.number * chunks, n, BLOCK), dtype))
    arguments = dict(
        factors=factors, pivots=pivots, b=None if inverse else b, **outs, size=n, sides=sides, is_shared=is_shared
    )
    x, _ = run.launch(SOLVE_FACTORED, (dtype,), (transposed, inverse), arguments, groups, (threads,))
    return x


def solve(run: Runtime, a: Any, b: Any, transposed: bool) -> tuple[Any, Any]:
    """X of a X = b or a^T X = b, and info: contiguous arrays with the same leading dimensions, or one `a`."""
    batch, dtype, sides = Batch.of(a), run.dtype(a), b.shape[-1]
    n = batch.rows
    is_alike = len(a.shape) == len(b.shape)
    if (
        is_alike
        and is_for_lanes(run, dtype, batch.number, n, max(n, 1))
        and (not n * batch.number or sides <= capacity(n))
    ):
        return _in_lanes(run, a, b, sides, transposed)
    factors, pivots, info = factor(run, a)
    return solve_factored(run, factors, pivots, b, transposed), info


def inverse(run: Runtime, a: Any, transposed: bool = False) -> tuple[Any, Any]:
    """The inverse, or that of a^T, and info."""
    batch, dtype = Batch.of(a), run.dtype(a)
    if is_for_lanes(run, dtype, batch.number, batch.rows, batch.rows):
        return _in_lanes(run, a, None, batch.rows, transposed)
    factors, pivots, info = factor(run, a)
    return solve_factored(run, factors, pivots, None, transposed, inverse=True), info


def _in_lanes(run: Runtime, a: Any, b: Any, sides: int, transposed: bool) -> tuple[Any, Any]:
    batch, dtype = Batch.of(a), run.dtype(a)
    n = batch.rows
    outs = dict(x=Out(batch.shape(n, sides), dtype), info=Out(batch.leading, "int32"))
    arguments = dict(a=a, b=b, **outs, count=batch.number, size=n, side_count=sides if n else 0)
    types = (dtype, capacity(n if batch.number else 0))
    constants, groups = (transposed, b is None), lane_groups(batch.number)
    x, info = run.launch(SOLVE_IN_LANES, types, constants, arguments, groups, (LANES,))
    return x, info


def batches(op: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Both with the same leading dimensions; a single matrix `a` is left as it is, and serves for all b."""
    return (a, b) if len(a.shape) == 2 else broadcast(op, a, b)


def transposed_copy(run: Runtime, array: Any) -> Any:
    return run.contiguous(array.swapaxes(-1, -2))


def summed(run: Runtime, gradients: Any, like: Any) -> Any:
    """The gradient of a matrix that served for all others: their sum. Else the gradients as they are."""
    if len(gradients.shape) == len(like.shape):
        return gradients
    shape = tuple(like.shape)
    flat = gradients.reshape(math.prod(gradients.shape[:-2]), math.prod(shape))
    return column_sum(run, flat, shape, run.dtype(gradients))

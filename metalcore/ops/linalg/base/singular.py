"""Singular value decompositions as plans use them: kernels/linalg/svd*.metal and bidiagonal*.metal."""

from __future__ import annotations

from typing import Any, NamedTuple

from metalcore.ops.linalg.base import bidiagonal
from metalcore.ops.linalg.base.matrix import LANES, THREADS, Batch, capacity, lane_groups, thread_groups
from metalcore.ops.linalg.base.result import batch_element
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

IN_LANES = Kernel("linalg/svd", "svd_lanes", ("has_vectors",))
CONSTANTS = ("has_vectors", "is_in_place")
FACTOR = Kernel("linalg/svd_factor", "svd_factor")
NO_TURNS = Kernel("linalg/svd_group", "svd_no_turns", CONSTANTS)
ROUND = Kernel("linalg/svd_group", "svd_round", CONSTANTS)
VALUES = Kernel("linalg/svd_group", "svd_values", CONSTANTS)
GRADED = Kernel("linalg/svd_graded", "svd_graded")
LEFT = Kernel("linalg/svd_factor", "svd_left")
SCALED = Kernel("linalg/svd_gradient", "svd_scaled")
BIDIAGONAL = "gesvd"
DRIVERS = (BIDIAGONAL, "gesvdj")
SWEEPS = 30  # with two blocks of vectors, in one launch
STATE = ("vectors", "turns", "scales", "moved")  # what a round of rotations changes
LAUNCHED_SWEEPS = 16  # each one is some launches, which end at once where there is nothing left to do
LARGEST_BLOCK = 64  # as in the kernel
NOT_FINITE = -4
GRADED_THREADS = 128
LEFTS = 4  # vectors that a simdgroup multiplies, as in the kernel


class Decomposition(NamedTuple):
    """A = U diag(S) Vh: `left` has columns of U as rows where `is_tall`, else rows of Vh; `right` the others."""

    left: Any
    values: Any
    right: Any
    info: Any
    is_tall: bool

    @property
    def u(self) -> Any:
        return (self.left if self.is_tall else self.right).swapaxes(-1, -2)

    @property
    def vh(self) -> Any:
        return self.right if self.is_tall else self.left


def decompose(run: Runtime, a: Any, has_vectors: bool = True, is_full: bool = False, driver: str = "") -> Decomposition:
    """Of a contiguous float32 (or float64) array of matrices. No error is raised: that is for `check`."""
    batch, dtype = Batch.of(a), run.dtype(a)
    is_tall = batch.rows > batch.columns
    sizes = (batch.columns, batch.rows) if is_tall else (batch.rows, batch.columns)
    shape = Batch(batch.leading, batch.number, *sizes)
    lefts = (shape.columns if is_full else shape.rows) if has_vectors else 0
    chosen = policy("linalg_svd", run.family, dtype)
    in_lanes = shape.columns <= chosen["lanes_to"] and batch.number >= chosen["lanes_from"]
    is_large = shape.rows > chosen["jacobi_to"]
    if shape.rows and (driver == BIDIAGONAL or (not driver and is_large and not _is_graded(run, a, batch))):
        take = bidiagonal.decompose
    else:
        take = _in_lanes if in_lanes and shape.rows else _in_groups
    # A copy has no other name here, so that its memory is free as soon as it has been read.
    found = take(run, run.contiguous(a.swapaxes(-1, -2)) if is_tall else a, shape, dtype, has_vectors, lefts)
    left, values, right, info = found
    return Decomposition(left, values, right, info, is_tall)


def _is_graded(run: Runtime, a: Any, batch: Batch) -> bool:
    """Whether rows or columns of one of the matrices differ so much in size that only Jacobi finds all digits."""
    arguments = dict(a=a, graded=Out((batch.number,), "int32"), row_count=batch.rows, column_count=batch.columns)
    (graded,) = run.launch(GRADED, (run.dtype(a),), (), arguments, (batch.number,), (GRADED_THREADS,))
    return bool(run.any_set(graded))


def scaled_rows(run: Runtime, a: Any, values: Any) -> Any:
    """Each row of `a` times its number of `values`."""
    batch, dtype = Batch.of(a), run.dtype(a)
    count = batch.number * batch.rows * batch.columns
    arguments = dict(a=a, values=values, out=Out(tuple(a.shape), dtype), count=count, columns=batch.columns)
    (rows,) = run.launch(SCALED, (dtype,), (), arguments, thread_groups(count), (THREADS,))
    return rows


def check(run: Runtime, info: Any, is_batch: bool, op: str = "linalg.svd") -> None:
    """Raise LinAlgError for the first matrix that has no decomposition."""
    run.check_info(info, lambda at, code: _explain(op, at, code, is_batch))


def _explain(op: str, position: int, code: int, is_batch: bool) -> str:
    start = f"{batch_element(op, position, is_batch)}The algorithm failed to converge because the input matrix "
    if code == NOT_FINITE:
        return f"{start}contained non-finite values."
    return f"{start}is ill-conditioned or has too many repeated singular values (error code: {code})."


def _outs(batch: Batch, dtype: str, has_vectors: bool, lefts: int) -> tuple[Out, Out, Out, Out]:
    n, m = batch.rows, batch.columns
    right = Out(batch.shape(n, n) if has_vectors else (0,), dtype)
    left = Out(batch.shape(lefts, m) if has_vectors else (0,), dtype)
    return left, Out(batch.shape(n), dtype), right, Out(batch.leading, "int32")


def _in_lanes(run: Runtime, work: Any, batch: Batch, dtype: str, has_vectors: bool, lefts: int) -> tuple[Any, ...]:
    n, m = batch.rows, batch.columns
    left, values, right, info = _outs(batch, dtype, has_vectors, lefts)
    arguments = dict(a=work, left=left, values=values, right=right, info=info)
    arguments |= dict(count=batch.number, columns=n, length=m, lefts=lefts)
    types = (dtype, capacity(m))
    return tuple(run.launch(IN_LANES, types, (has_vectors,), arguments, lane_groups(batch.number), (LANES,)))


def _in_groups(run: Runtime, work: Any, batch: Batch, dtype: str, has_vectors: bool, lefts: int) -> tuple[Any, ...]:
    n, m, number = batch.rows, batch.columns, batch.number
    chosen = policy("linalg_svd", run.family, dtype)
    threads, types, constants = (chosen["threads"],), (dtype,), (has_vectors, run.writes_in_place)
    is_small = n <= 2 * LARGEST_BLOCK
    block = max(1, -(-n // 2)) if is_small else chosen["block"]
    blocks = 2 * -(-n // (2 * block)) if n else 2
    slots = (blocks - 1) * (blocks // 2)
    column, whole, pitch = Out((number, n), dtype), Out((number,), dtype), -(-n // LANES) * LANES
    index = Out((number, n), "int32")
    arguments = dict(a=work, x=Out((number, n, m), dtype), r=Out((number, n, pitch), dtype))
    arguments |= dict(r_scales=column, factors=column, numbers=Out((number, 2, n), dtype), places=index, pivots=index)
    arguments |= dict(whole=whole, moved=Out((number, slots), "int32"), columns=n, length=m, slots=slots)
    x, r, scales, factors, _, places, pivots, whole, moved = run.launch(
        FACTOR, types, (), arguments, (number if n else 0,), threads
    )
    del work, arguments
    turns, count = run.empty((0,), dtype), number * n * pitch
    if has_vectors:
        given = dict(turns=Out((number, n, pitch), dtype), count=count, size=n)
        (turns,) = run.launch(NO_TURNS, types, constants, given, thread_groups(count), (THREADS,))
    state = [r, turns, scales, moved]
    for number_of_round in range(1 if is_small else LAUNCHED_SWEEPS * (blocks - 1)):
        outs = state if run.writes_in_place else [Out(tuple(a.shape), run.dtype(a)) for a in state]
        given = {f"{name}_before": array for name, array in zip(STATE, state, strict=True)}
        given |= dict(zip(STATE, outs, strict=True))
        sweep, turn = number_of_round // (blocks - 1), number_of_round % (blocks - 1)
        given |= dict(count=n, block=block, blocks=blocks, round=turn, sweeps=SWEEPS if is_small else 1, done=sweep)
        grid = (blocks // 2, number if n else 0)
        made = run.launch(ROUND, types, constants, given, grid, threads)
        state = state if run.writes_in_place else made
    r, turns, scales, moved = state
    left, values, right, info = _outs(batch, dtype, has_vectors, lefts)
    arguments = dict(vectors=r, scales=scales, whole=whole, moved=moved, values=values)
    arguments |= dict(right=right, order=index, numbers=Out((number, 2, n), dtype), info=info, count=n, slots=slots)
    values, right, order, _, info = run.launch(VALUES, types, constants, arguments, (number,), threads)
    if not has_vectors:
        return turns, values, right, info
    grid = (-(-lefts // (threads[0] // LANES * LEFTS)), number)
    arguments = dict(turns=turns, x=x, factors=factors, places=places, pivots=pivots, order=order)
    arguments |= dict(left=left, columns=n, length=m, lefts=lefts)
    (left,) = run.launch(LEFT, types, (), arguments, grid, threads)
    return left, values, right, info

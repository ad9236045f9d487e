"""Cholesky factorisation: kernels/linalg/cholesky.metal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.matrix import CAPACITIES, LANES, Batch, capacity, check_square, lane_groups, promoted
from metalcore.ops.linalg.base.product import Block, matmul, update
from metalcore.ops.linalg.base.result import batch_element, named
from metalcore.ops.linalg.base.triangular import BLOCK_ROWS, solve_block, solve_triangular, triangle
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

__all__ = ["cholesky", "cholesky_ex"]
IN_LANES = Kernel("linalg/cholesky", "cholesky_lanes", ("is_upper",))
IN_BLOCK = Kernel("linalg/cholesky", "cholesky_block", ("is_upper", "is_first", "copies"))


def cholesky(A: Any, *, upper: bool = False) -> Any:
    """The lower triangular L of A = L L^T, or with `upper` the U of A = U^T U; A is symmetric positive definite.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]], np.float32))
    array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    check_square("linalg.cholesky", "A", A)
    return CHOLESKY(A, bool(upper))


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info): no error is raised; `info` is the order of the first minor that is not positive definite, or 0."""
    check_square("linalg.cholesky_ex", "A", A)
    return named("linalg_cholesky_ex", "L info", CHOLESKY_EX(A, bool(upper), bool(check_errors)))


@stage("(Tensor A, bool upper, bool check_errors) -> (Tensor L, Tensor info)")
def forward_ex(run: Runtime, A: Any, upper: bool, check_errors: bool) -> tuple[Any, ...]:
    factor, info = factorise(run, promoted(run, A), upper)
    if check_errors:
        run.check_info(info, _explain("linalg.cholesky_ex", len(A.shape) > 2))
    return run.cast(factor, run.dtype(A)), info


def factorise(run: Runtime, a: Any, upper: bool) -> tuple[Any, Any]:
    """The factor and info of contiguous float32 (or float64) matrices; the way depends on their size and number."""
    batch, n, dtype = Batch.of(a), a.shape[-1], run.dtype(a)
    outs = dict(factor=Out(batch.shape(n, n), dtype), info=Out(batch.leading, "int32"))
    if n <= CAPACITIES[-1] and batch.number >= policy("linalg_cholesky", run.family, dtype)["lanes_from"]:
        arguments = dict(a=a, **outs, count=batch.number, size=n)
        factor, info = run.launch(
            IN_LANES, (dtype, capacity(n)), (upper,), arguments, lane_groups(batch.number), (LANES,)
        )
        return factor, info
    if n <= BLOCK_ROWS:
        given = dict(a=a, **outs, before=None, size=n, start=0, order=n)
        factor, info = run.launch(IN_BLOCK, (dtype,), (upper, True, False), given, (batch.number,), (LANES,))
        return factor, info
    factor, info = _blocked(run, triangle(run, a, upper=upper, mirrored=upper))
    return run.contiguous(factor.swapaxes(-1, -2)) if upper else factor, info


def _blocked(run: Runtime, work: Any) -> tuple[Any, Any]:
    """L of matrices of which the lower triangle is given: a block of the diagonal, the columns below it, and their
    share of what is left. `work` is changed in place where the runtime can."""
    batch, n, dtype = Batch.of(work), work.shape[-1], run.dtype(work)
    info: Any = None
    for start in range(0, n, BLOCK_ROWS):
        size = min(BLOCK_ROWS, n - start)
        end, left = start + size, n - start - size
        in_place = run.writes_in_place
        is_first = start == 0
        arguments = dict(a=work, factor=work if in_place else Out(batch.shape(n, n), dtype), before=info)
        arguments |= dict(info=info if in_place and not is_first else Out(batch.leading, "int32"))
        arguments |= dict(size=size, start=start, order=n)
        made = run.launch(IN_BLOCK, (dtype,), (False, is_first, not in_place), arguments, (batch.number,), (LANES,))
        if not in_place:
            work, info = made
        elif is_first:
            (info,) = made
        if left:
            diagonal, below = Block(work, start, start, size, size), Block(work, end, start, left, size)
            work = solve_block(run, diagonal, below, upper=False, transpose=True, left=False, unit=False)
            below = Block(work, end, start, left, size)
            work = update(
                run, Block(work, end, end, left, left), below, below, alpha=-1.0, transpose_b=True, lower=True
            )
    return work, info


@stage("(Tensor A, bool upper) -> Tensor L")
def forward(run: Runtime, A: Any, upper: bool) -> tuple[Any, ...]:
    factor, info = factorise(run, promoted(run, A), upper)
    run.check_info(info, _explain("linalg.cholesky", len(A.shape) > 2))
    return (run.cast(factor, run.dtype(A)),)


@stage("(Tensor grad_L, Tensor L, bool upper) -> Tensor dA")
def backward(run: Runtime, grad_L: Any, L: Any, upper: bool) -> tuple[Any, ...]:
    """dA = L^-T S L^-1, where S is half of the lower triangle of L^T dL and its mirror image."""
    dtype, g, factor = run.dtype(L), promoted(run, grad_L), promoted(run, L)
    if upper:
        half = matmul(run, factor, g, transpose_b=True)
    else:
        half = matmul(run, factor, g, transpose_a=True)
    half = triangle(run, half, upper=False, mirrored=True, scale=0.5)
    half = solve_triangular(run, factor, half, upper=upper, transpose=not upper)
    return (run.cast(solve_triangular(run, factor, half, upper=upper, transpose=upper, left=False), dtype),)


def _explain(op: str, is_batch: bool) -> Callable[[int, int], str]:
    return lambda position, order: (
        f"{batch_element(op, position, is_batch)}The factorization could not be completed because the "
        f"input is not positive-definite (the leading minor of order {order} is not positive-definite)."
    )


CHOLESKY = Op("linalg_cholesky", "A = L L^T", forward, backward, namesake="torch.linalg.cholesky")
CHOLESKY_EX = Op(
    "linalg_cholesky_ex",
    "A = L L^T, with info in place of an error",
    forward_ex,
    backward,
    namesake="torch.linalg.cholesky_ex",
)
OPS = (CHOLESKY, CHOLESKY_EX)

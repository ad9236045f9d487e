"""What a Cholesky factor is for: systems and the inverse, by triangular solves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.batches import broadcast
from metalcore.ops.linalg.base.matrix import check_square, check_system, promoted
from metalcore.ops.linalg.base.product import matmul
from metalcore.ops.linalg.base.symmetric import add_transpose, identity
from metalcore.ops.linalg.base.triangular import solve_triangular, triangle
from metalcore.runtimes.runtime import Runtime

__all__ = ["cholesky_inverse", "cholesky_solve"]


def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Any:
    """X of A X = B, where A = L L^T, or with `upper` A = L^T L; the other triangle of L is not read.

    >>> import numpy as np, metalcore
    >>> L, B = np.array([[2.0, 0.0], [1.0, 2.0]], np.float32), np.array([[8.0], [12.0]], np.float32)
    >>> metalcore.linalg.cholesky_solve(B, L)
    array([[1.],
           [2.]], dtype=float32)
    """
    op = "linalg.cholesky_solve"
    check_system(op, "L", L, B)
    if B.shape[-2] != L.shape[-1]:
        refuse(op, "B", f"of {L.shape[-1]} rows, as L of shape {tuple(L.shape)} has", f"of shape {tuple(B.shape)}")
    L, B = broadcast(op, L, B)
    return SOLVE(B, L, bool(upper))


def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """The inverse of A = L L^T, or with `upper` of A = L^T L; the other triangle of L is not read.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.cholesky_inverse(np.array([[2.0, 0.0], [0.0, 1.0]], np.float32))
    array([[0.25, 0.  ],
           [0.  , 1.  ]], dtype=float32)
    """
    check_square("linalg.cholesky_inverse", "L", L)
    return INVERSE(L, bool(upper))


def solve(run: Runtime, b: Any, factor: Any, upper: bool) -> Any:
    """A^-1 b of contiguous float32 (or float64) arrays."""
    half = solve_triangular(run, factor, b, upper=upper, transpose=upper)
    return solve_triangular(run, factor, half, upper=upper, transpose=not upper)


@stage("(Tensor B, Tensor L, bool upper) -> Tensor X")
def forward(run: Runtime, B: Any, L: Any, upper: bool) -> tuple[Any, ...]:
    return (run.cast(solve(run, promoted(run, B), promoted(run, L), upper), run.dtype(B)),)


@stage("(Tensor grad_X, Tensor L, Tensor X, bool upper, bool[] wanted) -> (Tensor dB, Tensor dL)")
def backward(run: Runtime, grad_X: Any, L: Any, X: Any, upper: bool, wanted: Sequence[bool]) -> tuple[Any, ...]:
    """dB = A^-1 dX; dL = -(dB X^T + X dB^T) L, of which L has a triangle."""
    dtype, factor, x = run.dtype(L), promoted(run, L), promoted(run, X)
    db = solve(run, promoted(run, grad_X), factor, upper)
    dl = run.empty((0,), dtype)
    if wanted[1]:
        dl = run.cast(_factor_gradient(run, matmul(run, db, x, transpose_b=True), factor, upper), dtype)
    return run.cast(db, dtype), dl


@stage("(Tensor L, bool upper) -> Tensor Y")
def inverse_forward(run: Runtime, L: Any, upper: bool) -> tuple[Any, ...]:
    factor = promoted(run, L)
    n, leading = factor.shape[-1], tuple(factor.shape[:-2])
    half = solve_triangular(run, factor, identity(run, leading, n, run.dtype(factor)), upper=upper)
    # half is L^-1 or U^-1
    y = matmul(run, half, half, transpose_a=not upper, transpose_b=upper)
    return (run.cast(y, run.dtype(L)),)


@stage("(Tensor grad_Y, Tensor L, Tensor Y, bool upper) -> Tensor dL")
def inverse_backward(run: Runtime, grad_Y: Any, L: Any, Y: Any, upper: bool) -> tuple[Any, ...]:
    """dL = -Y (dY + dY^T) Y L, of which L has a triangle."""
    factor, y = promoted(run, L), promoted(run, Y)
    common = matmul(run, matmul(run, y, promoted(run, grad_Y)), y)
    return (run.cast(_factor_gradient(run, common, factor, upper), run.dtype(L)),)


def _factor_gradient(run: Runtime, common: Any, factor: Any, upper: bool) -> Any:
    """-(C + C^T) L, or -U (C + C^T), where it has numbers."""
    both, factor = add_transpose(run, common), triangle(run, factor, upper=upper)  # the rest may be anything
    full = matmul(run, factor, both) if upper else matmul(run, both, factor)
    return triangle(run, full, upper=upper, scale=-1.0)


SOLVE = Op(
    "linalg_cholesky_solve", "A X = B with the Cholesky factor of A", forward, backward, namesake="torch.cholesky_solve"
)
INVERSE = Op(
    "linalg_cholesky_inverse",
    "the inverse of A with its Cholesky factor",
    inverse_forward,
    inverse_backward,
    namesake="torch.cholesky_inverse",
)
OPS = (SOLVE, INVERSE)

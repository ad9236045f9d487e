"""Systems with a triangular matrix: kernels/linalg/triangular.metal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base import triangular
from metalcore.ops.linalg.base.batches import broadcast
from metalcore.ops.linalg.base.matrix import check_system, promoted
from metalcore.ops.linalg.base.product import matmul
from metalcore.runtimes.runtime import Runtime

__all__ = ["solve_triangular"]


def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """X of A X = B, or of X A = B where not `left`. Only the upper or the lower triangle of A is read; with
    `unitriangular` its diagonal is taken to be 1.

    >>> import numpy as np, metalcore
    >>> A, B = np.array([[2.0, 1.0], [0.0, 4.0]], np.float32), np.array([[4.0], [8.0]], np.float32)
    >>> metalcore.linalg.solve_triangular(A, B, upper=True)
    array([[1.],
           [2.]], dtype=float32)
    """
    op = "linalg.solve_triangular"
    check_system(op, "A", A, B)
    n, given = A.shape[-1], B.shape[-2 if left else -1]
    if n != given:
        where = "rows" if left else "columns"
        refuse(op, "B", f"of {n} {where}, as A of shape {tuple(A.shape)} has", f"of shape {tuple(B.shape)}")
    A, B = broadcast(op, A, B)
    return SOLVE(A, B, bool(upper), bool(left), bool(unitriangular))


def trsm(A: Any, B: Any, lower: bool = True, transpose: bool = False) -> Any:
    """X of A X = B, or of A^T X = B with `transpose`; A is a lower triangle, or an upper one where not `lower`. B is a
    matrix, a vector, or a batch of either, as in linalg.solve. BLAS's name for linalg.solve_triangular.

    >>> import numpy as np, metalcore
    >>> L = np.array([[2.0, 0.0], [1.0, 4.0]], np.float32)
    >>> metalcore.trsm(L, np.array([4.0, 6.0], np.float32))
    array([2., 1.], dtype=float32)
    """
    is_vector = len(B.shape) == 1 or tuple(B.shape) == tuple(A.shape[:-1])
    matrix = A.swapaxes(-1, -2) if transpose and len(A.shape) > 1 else A
    x = solve_triangular(matrix, B[..., None] if is_vector else B, upper=bool(lower) == bool(transpose))
    return x.reshape(x.shape[:-1]) if is_vector else x


@stage("(Tensor A, Tensor B, bool upper, bool left, bool unitriangular) -> Tensor X")
def forward(run: Runtime, A: Any, B: Any, upper: bool, left: bool, unitriangular: bool) -> tuple[Any, ...]:
    x = triangular.solve_triangular(run, promoted(run, A), promoted(run, B), upper=upper, left=left, unit=unitriangular)
    return (run.cast(x, run.dtype(B)),)


@stage(
    "(Tensor grad_X, Tensor A, Tensor X, bool upper, bool left, bool unitriangular, bool[] wanted)"
    " -> (Tensor dA, Tensor dB)"
)
def backward(
    run: Runtime, grad_X: Any, A: Any, X: Any, upper: bool, left: bool, unitriangular: bool, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    """dB = A^-T dX and dA = -dB X^T (X A = B: dB = dX A^-T, dA = -X^T dB), of which A has a triangle."""
    dtype, a, x = run.dtype(A), promoted(run, A), promoted(run, X)
    db = triangular.solve_triangular(
        run, a, promoted(run, grad_X), upper=upper, transpose=True, left=left, unit=unitriangular
    )
    if not wanted[0]:
        return run.empty((0,), dtype), run.cast(db, dtype)
    da = matmul(run, db, x, transpose_b=True) if left else matmul(run, x, db, transpose_a=True)
    da = triangular.triangle(run, da, upper=upper, diagonal=not unitriangular, scale=-1.0)
    return run.cast(da, dtype), run.cast(db, dtype)


SOLVE = Op(
    "linalg_solve_triangular",
    "A X = B with a triangular A",
    forward,
    backward,
    namesake="torch.linalg.solve_triangular",
)
OPS = (SOLVE,)

"""Singular value decomposition: kernels/linalg/svd.metal, svd_group.metal, svd_gradient.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.matrix import THREADS, Batch, check_matrix, kept, promoted, thread_groups, unrounded
from metalcore.ops.linalg.base.product import Block, matmul, update
from metalcore.ops.linalg.base.result import named
from metalcore.ops.linalg.base.singular import DRIVERS, check, decompose, scaled_rows
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

__all__ = ["svd", "svdvals"]
MIDDLE = Kernel("linalg/svd_gradient", "svd_middle")
DIVIDED = Kernel("linalg/svd_gradient", "svd_divided", ("is_rows", "adds"))


def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """(U, S, Vh) with A = U diag(S) Vh: U and Vh are orthogonal, S is not negative and descending.

    With `full_matrices` U and Vh are square, without it they have min(m, n) columns and rows. `driver` is "gesvdj"
    (Jacobi's rotations: even the smallest singular values have most of their digits where rows or columns of A are of
    very different size), "gesvd" (a bidiagonal matrix between, as LAPACK does it: faster for large matrices, errors are
    relative to the largest singular value), or None: on a CPU the second above 128 rows and columns where these do not
    differ much in size, else the first.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.svd(np.array([[0.0, 2.0], [3.0, 0.0]], np.float32)).S
    array([3., 2.], dtype=float32)
    """
    check_matrix("linalg.svd", "A", A)
    return named("linalg_svd", "U S Vh", SVD(A, bool(full_matrices), _driver("linalg.svd", driver)))


def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """The singular values of a matrix, descending. `driver` is that of `svd`.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.svdvals(np.array([[0.0, 2.0], [3.0, 0.0]], np.float32))
    array([3., 2.], dtype=float32)
    """
    check_matrix("linalg.svdvals", "A", A)
    return SVDVALS(A, _driver("linalg.svdvals", driver))


def _driver(op: str, driver: Any) -> str:
    if driver not in (None, *DRIVERS):
        refuse(op, "driver", f"None or one of {', '.join(DRIVERS)}", repr(driver))
    return driver or ""


@stage(
    "(Tensor A, bool full_matrices, str driver) -> (Tensor U, Tensor S, Tensor Vh, "
    "Tensor kept_U, Tensor kept_S, Tensor kept_Vh)"
)
def forward(run: Runtime, A: Any, full_matrices: bool, driver: str) -> tuple[Any, ...]:
    found = decompose(run, promoted(run, A), is_full=full_matrices, driver=driver)
    check(run, found.info, len(A.shape) > 2)
    given, parts = run.dtype(A), (found.u, found.values, found.vh)
    return *(run.cast(x, given) for x in parts), *kept(run, given, parts)


@stage("(Tensor A, str driver) -> Tensor S")
def forward_values(run: Runtime, A: Any, driver: str) -> tuple[Any, ...]:
    found = decompose(run, promoted(run, A), has_vectors=False, driver=driver)
    check(run, found.info, len(A.shape) > 2)
    return (run.cast(found.values, run.dtype(A)),)


@stage(
    "(Tensor grad_U, Tensor grad_S, Tensor grad_Vh, Tensor U, Tensor S, Tensor Vh, "
    "Tensor kept_U, Tensor kept_S, Tensor kept_Vh) -> Tensor dA"
)
def backward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    """Differences of singular values divide: those of rounded ones may be 0."""
    grads, found, kept = values[:3], values[3:6], values[6:]
    return (run.cast(gradient(run, *grads, *unrounded(run, found, kept)), run.dtype(found[0])),)


def gradient(run: Runtime, grad_U: Any, grad_S: Any, grad_Vh: Any, U: Any, S: Any, Vh: Any) -> Any:
    """With P = U^T grad_U and Q = Vh grad_Vh^T, where U and V are those of the singular values alone:
    U M Vh + (grad_U / S) Vh + U (grad_Vh / S), the last two only where U or V is not square, and
    M_ij = ((P_ij - P_ji) S_j + S_i (Q_ij - Q_ji)) / (S_j^2 - S_i^2) - P_ij / S_j - Q_ji / S_i, M_ii with grad_S_i."""
    m, k, n = U.shape[-2], S.shape[-1], Vh.shape[-1]
    U, grad_U = (promoted(run, x[..., :, :k]) for x in (U, grad_U))
    Vh, grad_Vh = (promoted(run, x[..., :k, :]) for x in (Vh, grad_Vh))
    S, grad_S = promoted(run, S), promoted(run, grad_S)
    dtype, batch = run.dtype(U), Batch.of(U)
    p = matmul(run, U, grad_U, transpose_a=True)
    q = matmul(run, Vh, grad_Vh, transpose_b=True)
    count = batch.number * k * k
    arguments = dict(p=p, q=q, values=S, grad_values=grad_S, middle=Out(batch.shape(k, k), dtype))
    arguments |= dict(count=count, size=k, has_more_rows=int(m > k), has_more_columns=int(n > k))
    (middle,) = run.launch(MIDDLE, (dtype,), (), arguments, thread_groups(count), (THREADS,))
    x = matmul(run, U, middle)
    if m > k:
        x = _divided(run, grad_U, S, x, is_rows=False)
    found = matmul(run, x, Vh)
    if n > k:
        rows = _divided(run, grad_Vh, S, None, is_rows=True)
        found = update(run, Block.of(found), Block.of(U), Block.of(rows))
    return found


def _divided(run: Runtime, a: Any, values: Any, added: Any, is_rows: bool) -> Any:
    """a / S, by rows or by columns, plus `added`."""
    batch, dtype = Batch.of(a), run.dtype(a)
    count = batch.number * batch.rows * batch.columns
    arguments = dict(a=a, values=values, added=added, out=Out(tuple(a.shape), dtype))
    arguments |= dict(count=count, rows=batch.rows, columns=batch.columns)
    constants = (is_rows, added is not None)
    (found,) = run.launch(DIVIDED, (dtype,), constants, arguments, thread_groups(count), (THREADS,))
    return found


@stage("(Tensor grad_S, Tensor A, str driver) -> Tensor dA")
def backward_values(run: Runtime, grad_S: Any, A: Any, driver: str) -> tuple[Any, ...]:
    """U diag(grad_S) Vh."""
    found = decompose(run, promoted(run, A), driver=driver)
    vh = run.contiguous(found.vh)
    rows = scaled_rows(run, vh, promoted(run, grad_S))
    return (run.cast(matmul(run, run.contiguous(found.u), rows), run.dtype(A)),)


SVD = Op("linalg_svd", "A = U diag(S) Vh", forward, backward, kept=3, batched=("A",), namesake="torch.linalg.svd")
SVDVALS = Op(
    "linalg_svdvals",
    "singular values",
    forward_values,
    backward_values,
    batched=("A",),
    namesake="torch.linalg.svdvals",
)
OPS = (SVD, SVDVALS)

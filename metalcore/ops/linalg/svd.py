"""Singular value decomposition: kernels/linalg/svd.metal, svd_group.metal, svd_gradient.metal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.draw import Draw, Sample
from metalcore.ops.base.op import Op, Stage
from metalcore.ops.linalg.base.matrix import Batch, check_matrix, promoted
from metalcore.ops.linalg.base.product import Block, matmul, update
from metalcore.ops.linalg.base.result import named
from metalcore.ops.linalg.base.singular import check, decompose
from metalcore.runtimes.kernel import Kernel, Out

__all__ = ["svd", "svdvals"]
MIDDLE = Kernel("linalg/svd_gradient", "svd_middle")
DIVIDED = Kernel("linalg/svd_gradient", "svd_divided", ("is_rows", "adds"))
THREADS = 256


def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """(U, S, Vh) with A = U diag(S) Vh: U and Vh are orthogonal, S is not negative and descending.

    With `full_matrices` U and Vh are square, without it they have min(m, n) columns and rows. Even the smallest
    singular values have most of their digits where rows or columns of A are of very different size. `driver` has to
    be None.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.svd(np.array([[0.0, 2.0], [3.0, 0.0]], np.float32)).S
    array([3., 2.], dtype=float32)
    """
    check_matrix("linalg.svd", "A", A)
    _check_driver("linalg.svd", driver)
    return named("linalg_svd", "U S Vh", SVD(A, bool(full_matrices)))


def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """The singular values of a matrix, descending.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.svdvals(np.array([[0.0, 2.0], [3.0, 0.0]], np.float32))
    array([3., 2.], dtype=float32)
    """
    check_matrix("linalg.svdvals", "A", A)
    _check_driver("linalg.svdvals", driver)
    return SVDVALS(A)


def _check_driver(op: str, driver: Any) -> None:
    if driver is not None:
        refuse(op, "driver", "None: there is one algorithm", repr(driver))


def forward(run: Any, A: Any, full_matrices: bool) -> tuple[Any, ...]:
    found = decompose(run, promoted(run, A), is_full=full_matrices)
    check(run, found.info, len(A.shape) > 2)
    given = run.dtype(A)
    return run.cast(found.u, given), run.cast(found.values, given), run.cast(found.vh, given)


def forward_values(run: Any, A: Any) -> tuple[Any, ...]:
    found = decompose(run, promoted(run, A), has_vectors=False)
    check(run, found.info, len(A.shape) > 2)
    return (run.cast(found.values, run.dtype(A)),)


def backward(
    run: Any, grad_U: Any, grad_S: Any, grad_Vh: Any, U: Any, S: Any, Vh: Any, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    """With P = U^T grad_U and Q = Vh grad_Vh^T, where U and V are those of the singular values alone:
    U M Vh + (grad_U / S) Vh + U (grad_Vh / S), the last two only where U or V is not square, and
    M_ij = ((P_ij - P_ji) S_j + S_i (Q_ij - Q_ji)) / (S_j^2 - S_i^2) - P_ij / S_j - Q_ji / S_i, M_ii with grad_S_i."""
    m, k, n, given = U.shape[-2], S.shape[-1], Vh.shape[-1], run.dtype(U)
    U, grad_U = (promoted(run, x[..., :, :k]) for x in (U, grad_U))
    Vh, grad_Vh = (promoted(run, x[..., :k, :]) for x in (Vh, grad_Vh))
    S, grad_S = promoted(run, S), promoted(run, grad_S)
    dtype, batch = run.dtype(U), Batch.of(U)
    p = matmul(run, U, grad_U, transpose_a=True)
    q = matmul(run, Vh, grad_Vh, transpose_b=True)
    count = batch.number * k * k
    arguments = (p, q, S, grad_S, Out(batch.shape(k, k), dtype), count, k, int(m > k), int(n > k))
    (middle,) = run.launch(MIDDLE, (dtype,), (), arguments, _grid(count), (THREADS,))
    x = matmul(run, U, middle)
    if m > k:
        x = _divided(run, grad_U, S, x, is_rows=False)
    gradient = matmul(run, x, Vh)
    if n > k:
        rows = _divided(run, grad_Vh, S, None, is_rows=True)
        gradient = update(run, Block.of(gradient), Block.of(U), Block.of(rows))
    return (run.cast(gradient, given),)


def _grid(count: int) -> tuple[int]:
    return (-(-count // THREADS),)


def _divided(run: Any, a: Any, values: Any, added: Any, is_rows: bool) -> Any:
    """a / S, by rows or by columns, plus `added`."""
    batch, dtype = Batch.of(a), run.dtype(a)
    count = batch.number * batch.rows * batch.columns
    arguments = (a, values, added, Out(tuple(a.shape), dtype), count, batch.rows, batch.columns)
    constants = (is_rows, added is not None)
    (found,) = run.launch(DIVIDED, (dtype,), constants, arguments, _grid(count), (THREADS,))
    return found


def backward_values(run: Any, grad_S: Any, A: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
    """U diag(grad_S) Vh."""
    found = decompose(run, promoted(run, A))
    vh = run.contiguous(found.vh)
    batch, dtype = Batch.of(vh), run.dtype(vh)
    count = batch.number * batch.rows * batch.columns
    arguments = (vh, promoted(run, grad_S), Out(tuple(vh.shape), dtype), count, batch.columns)
    (rows,) = run.launch(SCALED, (dtype,), (), arguments, _grid(count), (THREADS,))
    return (run.cast(matmul(run, run.contiguous(found.u), rows), run.dtype(A)),)


SCALED = Kernel("linalg/svd_gradient", "svd_scaled")


def reference(A: Any, full_matrices: bool = True) -> Any:
    import torch

    return torch.linalg.svd(A, full_matrices=full_matrices)


def reference_values(A: Any) -> Any:
    import torch

    return torch.linalg.svdvals(A)


def samples(draw: Draw) -> Sample:
    rows, columns = draw.size(most=65), draw.size(most=65)
    return Sample((draw.floats((*draw.leading(most=1), rows, columns)),), {"full_matrices": draw.chance(0.5)})


def samples_values(draw: Draw) -> Sample:
    return Sample((draw.floats((*draw.leading(most=1), draw.size(most=65), draw.size(most=65))),))


SVD = Op(
    noun="linalg_svd",
    summary="A = U diag(S) Vh",
    forward=Stage("(Tensor A, bool full_matrices) -> (Tensor U, Tensor S, Tensor Vh)", forward),
    backward=Stage(
        "(Tensor grad_U, Tensor grad_S, Tensor grad_Vh, Tensor U, Tensor S, Tensor Vh, bool[] wanted) -> Tensor dA",
        backward,
    ),
    gradients=("A",),
    public_outputs=3,
    reference=reference,
    samples=samples,
    batched=("A",),
    namesake="torch.linalg.svd",
)
SVDVALS = Op(
    noun="linalg_svdvals",
    summary="singular values",
    forward=Stage("(Tensor A) -> Tensor S", forward_values),
    backward=Stage("(Tensor grad_S, Tensor A, bool[] wanted) -> Tensor dA", backward_values),
    gradients=("A",),
    reference=reference_values,
    samples=samples_values,
    batched=("A",),
    namesake="torch.linalg.svdvals",
)
OPS = (SVD, SVDVALS)

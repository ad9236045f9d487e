"""Orthonormal bases: kernels/linalg/polar.metal, and qr."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.matrix import Batch, check_matrix, promoted
from metalcore.ops.linalg.base.qr import factorise, orthogonal_gradient, positive_qr
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

__all__ = ["complete_basis", "orthogonalize"]
COMPLETED = Kernel("linalg/polar", "completed")


def orthogonalize(A: Any) -> Any:
    """A matrix of A's shape with orthonormal columns that span those of A, or with orthonormal rows where A has fewer
    rows than columns.

    It is what Gram and Schmidt would give: the j-th column is the j-th of A without its parts along those before, with
    A's direction. Where A has not full rank, other directions fill the gaps.

    >>> import numpy as np, metalcore
    >>> abs(metalcore.linalg.orthogonalize(np.array([[2.0, 1.0], [0.0, 3.0]], np.float32)))
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    check_matrix("linalg.orthogonalize", "A", A)
    return ORTHOGONALIZE(A)


def complete_basis(Q: Any) -> Any:
    """The orthogonal m x m matrix that begins with the k orthonormal columns of Q (m x k): m - k columns are added.

    >>> import numpy as np, metalcore
    >>> np.abs(metalcore.linalg.complete_basis(np.array([[0.0], [1.0]], np.float32)))
    array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    check_matrix("linalg.complete_basis", "Q", Q)
    if Q.shape[-1] > Q.shape[-2]:
        refuse("linalg.complete_basis", "Q", "of at most as many columns as rows", f"of shape {tuple(Q.shape)}")
    return COMPLETE_BASIS(Q)


@stage("(Tensor A) -> (Tensor Q, Tensor R)")
def forward(run: Runtime, A: Any) -> tuple[Any, ...]:
    given, is_wide = run.dtype(A), A.shape[-2] < A.shape[-1]
    work = promoted(run, A.swapaxes(-1, -2) if is_wide else A)
    q, r = positive_qr(run, work)
    return run.cast(run.contiguous(q.swapaxes(-1, -2)) if is_wide else q, given), r


@stage("(Tensor grad_Q, Tensor Q, Tensor R) -> Tensor dA")
def backward(run: Runtime, grad_Q: Any, Q: Any, R: Any) -> tuple[Any, ...]:
    given, is_wide = run.dtype(Q), Q.shape[-2] < Q.shape[-1]
    q, dq = (promoted(run, x.swapaxes(-1, -2) if is_wide else x) for x in (Q, grad_Q))
    found = orthogonal_gradient(run, dq, None, q, R)
    return (run.cast(run.contiguous(found.swapaxes(-1, -2)) if is_wide else found, given),)


@stage("(Tensor Q) -> Tensor out")
def complete_forward(run: Runtime, Q: Any) -> tuple[Any, ...]:
    given, work = run.dtype(Q), promoted(run, Q)
    batch, dtype = Batch.of(work), run.dtype(work)
    whole, _ = factorise(run, work, "complete")
    if batch.columns == 0:
        return (run.cast(whole, given),)
    arguments = dict(
        q=work, whole=whole, out=Out(tuple(whole.shape), dtype), row_count=batch.rows, column_count=batch.columns
    )
    group = (policy("linalg_panel_qr", run.family, dtype)["row_threads"],)
    (out,) = run.launch(COMPLETED, (dtype,), (), arguments, (batch.rows, batch.number, 1), group)
    return (run.cast(out, given),)


ORTHOGONALIZE = Op(
    "linalg_orthogonalize", "orthonormal columns, or rows, with the span of a matrix", forward, backward, kept=1
)
COMPLETE_BASIS = Op("linalg_complete_basis", "an orthogonal matrix that begins with given columns", complete_forward)
OPS = (ORTHOGONALIZE, COMPLETE_BASIS)

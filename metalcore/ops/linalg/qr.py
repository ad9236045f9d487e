"""A = Q R: kernels/linalg/qr.metal, tall_qr.metal and panel_qr.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.matrix import check_matrix, promoted
from metalcore.ops.linalg.base.product import Block, matmul, update
from metalcore.ops.linalg.base.qr import factorise, orthogonal_gradient
from metalcore.ops.linalg.base.reflectors import copied, joined
from metalcore.ops.linalg.base.result import named
from metalcore.runtimes.runtime import Runtime

__all__ = ["qr"]
MODES = ("reduced", "complete", "r")


def qr(A: Any, mode: str = "reduced") -> Any:
    """(Q, R) with A = Q R: the columns of Q are orthonormal, R is upper triangular.

    mode: "reduced" gives min(m, n) columns of Q, "complete" all m of them, "r" leaves Q empty. R has the signs that
    LAPACK gives it.

    >>> import numpy as np, metalcore
    >>> Q, R = metalcore.linalg.qr(np.array([[3.0, 1.0], [4.0, 2.0]], np.float32))
    >>> np.round(R, 3)
    array([[-5. , -2.2],
           [ 0. ,  0.4]], dtype=float32)
    """
    check_matrix("linalg.qr", "A", A)
    if mode not in MODES:
        refuse("linalg.qr", "mode", "'reduced', 'complete' or 'r'", repr(mode))
    return named("linalg_qr", "Q R", QR(A, mode))


@stage("(Tensor A, str mode) -> (Tensor Q, Tensor R)")
def forward(run: Runtime, A: Any, mode: str) -> tuple[Any, ...]:
    given = run.dtype(A)
    q, r = factorise(run, promoted(run, A), mode)
    return run.cast(q, given), run.cast(r, given)


@stage("(Tensor grad_Q, Tensor grad_R, Tensor Q, Tensor R, str mode) -> Tensor dA")
def backward(run: Runtime, grad_Q: Any, grad_R: Any, Q: Any, R: Any, mode: str) -> tuple[Any, ...]:
    """[dQ + Q S] R^-T, where S is symmetric with the upper triangle of dR R^T - Q^T dQ. Of a wide A the columns beyond
    the m-th depend on R alone."""
    if mode == "r":
        refuse("linalg.qr", "mode", "'reduced' or 'complete' for a gradient, which needs Q", "'r'")
    rows, columns, given = Q.shape[-2], R.shape[-1], run.dtype(Q)
    if Q.shape[-1] > columns:
        refuse("linalg.qr", "mode", "'reduced' for a gradient where A has more rows than columns", "'complete'")
    q, r, dq, dr = (promoted(run, x) for x in (Q, R, grad_Q, grad_R))
    if rows >= columns:
        return (run.cast(orthogonal_gradient(run, dq, dr, q, r), given),)
    # A = [X, Y], R = [U, V], Y = Q V: dY = Q dV, and Q gets Y dV^T = Q V dV^T
    u, v, du, dv = (run.contiguous(x) for x in (r[..., :rows], r[..., rows:], dr[..., :rows], dr[..., rows:]))
    whole = copied(run, dq) if run.writes_in_place else dq
    whole = update(run, Block.of(whole), Block.of(q), Block.of(matmul(run, v, dv, transpose_b=True)))
    left, right = orthogonal_gradient(run, whole, du, q, u), matmul(run, q, dv)
    return (run.cast(joined(run, left, right), given),)


QR = Op("linalg_qr", "A = Q R", forward, backward, namesake="torch.linalg.qr")
OPS = (QR,)

"""Cholesky and QR factorisations in float-float arithmetic, rounded at the end: kernels/precise_factor.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.matrix import Batch, check_matrix, check_square, promoted
from metalcore.ops.linalg.base.result import batch_element, named
from metalcore.ops.linalg.cholesky import CHOLESKY as PLAIN_CHOLESKY
from metalcore.ops.linalg.cholesky import cholesky as plain_cholesky
from metalcore.ops.linalg.qr import QR as PLAIN_QR
from metalcore.ops.linalg.qr import qr as plain_qr
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

__all__ = ["cholesky", "qr"]
CHOLESKY_KERNEL = Kernel("precise_factor", "precise_cholesky", ("is_upper",))
QR_KERNEL = Kernel("precise_factor", "precise_qr")
Q_KERNEL = Kernel("precise_factor", "precise_qr_q")
PRECISIONS = ("float32", "float-float")
MODES = ("reduced", "complete", "r")


def _check(op: str, precision: str) -> None:
    if precision not in PRECISIONS:
        refuse(op, "precision", "'float32' or 'float-float': 'exact' is of sums and products alone", repr(precision))


def cholesky(A: Any, *, upper: bool = False, precision: str = "float-float") -> Any:
    """L of A = L L^T, or with `upper` U of A = U^T U, as torch.linalg.cholesky, computed in float-float and
    then rounded.

    "float32" is metalcore.linalg.cholesky.

    >>> import numpy as np, metalcore
    >>> metalcore.precise.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]], np.float32))
    array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    check_square("precise.cholesky", "A", A)
    _check("precise.cholesky", precision)
    if precision == "float32":
        return plain_cholesky(A, upper=upper)
    return CHOLESKY(A, bool(upper))


def qr(A: Any, mode: str = "reduced", *, precision: str = "float-float") -> Any:
    """(Q, R) of A = Q R, as torch.linalg.qr, computed in float-float and then rounded.

    "float32" is metalcore.linalg.qr.

    >>> import numpy as np, metalcore
    >>> metalcore.precise.qr(np.array([[3.0, 1.0], [4.0, 2.0]], np.float32), "r").R[0, 0]
    np.float32(-5.0)
    """
    check_matrix("precise.qr", "A", A)
    _check("precise.qr", precision)
    if mode not in MODES:
        refuse("precise.qr", "mode", "'reduced', 'complete' or 'r'", repr(mode))
    if precision == "float32":
        return plain_qr(A, mode)
    return named("linalg_qr", "Q R", QR(A, mode))


@stage("(Tensor A, bool upper) -> Tensor L")
def cholesky_forward(run: Runtime, A: Any, upper: bool) -> tuple[Any, ...]:
    work, batch = promoted(run, A), Batch.of(A)
    dtype, n = run.dtype(work), batch.rows
    shape, threads = tuple(A.shape), policy("precise", run.family, dtype)["threads"]
    arguments = dict(a=work, high=Out(shape, dtype), low=Out(shape, dtype), info=Out(batch.leading, "int32"), size=n)
    high, _, info = run.launch(CHOLESKY_KERNEL, (dtype,), (upper,), arguments, (batch.number,), (threads,))
    run.check_info(info, lambda at, order: _explain(at, order, len(shape) > 2))
    factor = high if upper else run.contiguous(high.swapaxes(-1, -2))
    return (run.cast(factor, run.dtype(A)),)


def _explain(position: int, order: int, is_batch: bool) -> str:
    return (
        f"{batch_element('precise.cholesky', position, is_batch)}The factorization could not be completed because the "
        f"input is not positive-definite (the leading minor of order {order} is not positive-definite)."
    )


@stage("(Tensor A, str mode) -> (Tensor Q, Tensor R)")
def qr_forward(run: Runtime, A: Any, mode: str) -> tuple[Any, ...]:
    batch = Batch.of(A)
    m, n = batch.rows, batch.columns
    turned = run.contiguous(promoted(run, A).swapaxes(-1, -2))
    dtype, threads = run.dtype(turned), policy("precise", run.family, run.dtype(turned))["threads"]
    steps, vectors = min(m, n), m if mode == "complete" else min(m, n)
    half, tau = Out(batch.shape(n, m), dtype), Out(batch.shape(steps), dtype)
    arguments = dict(a=turned, high=half, low=half, tau_high=tau, tau_low=tau, r=Out(batch.shape(vectors, n), dtype))
    arguments |= dict(rows=m, columns=n, r_rows=vectors)
    high, low, tau_high, tau_low, r = run.launch(QR_KERNEL, (dtype,), (), arguments, (batch.number,), (threads,))
    if mode == "r":
        return run.empty((0,), run.dtype(A)), run.cast(r, run.dtype(A))
    vector = Out(batch.shape(vectors, m), dtype)
    arguments = dict(high=high, low=low, tau_high=tau_high, tau_low=tau_low, q=vector, q_low=vector)
    arguments |= dict(rows=m, columns=n)
    q, _ = run.launch(Q_KERNEL, (dtype,), (), arguments, (vectors, batch.number, 1), (32, 1, 1))
    return run.cast(run.contiguous(q.swapaxes(-1, -2)), run.dtype(A)), run.cast(r, run.dtype(A))


CHOLESKY = Op("precise_cholesky", "A = L L^T in float-float arithmetic", cholesky_forward, PLAIN_CHOLESKY.backward)
QR = Op("precise_qr", "A = Q R in float-float arithmetic", qr_forward, PLAIN_QR.backward)
OPS = (CHOLESKY, QR)

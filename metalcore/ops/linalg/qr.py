"""A = Q R: kernels/linalg/qr.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.draw import Draw, Sample
from metalcore.ops.base.op import Op, Stage
from metalcore.ops.linalg.base import panel_qr, tall_qr
from metalcore.ops.linalg.base.matrix import LANES, Batch, capacity, check_matrix, lane_groups, promoted
from metalcore.ops.linalg.base.product import Block
from metalcore.ops.linalg.base.result import named
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy

__all__ = ["qr"]
IN_LANES = Kernel("linalg/qr", "qr_lanes")
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


def forward(run: Any, A: Any, mode: str) -> tuple[Any, ...]:
    given = run.dtype(A)
    q, r = factorise(run, promoted(run, A), mode)
    return run.cast(q, given), run.cast(r, given)


def factorise(run: Any, work: Any, mode: str) -> tuple[Any, Any]:
    """Q and R of a contiguous float32 (or float64) array of matrices; Q is an array of no elements in mode "r"."""
    batch, dtype = Batch.of(work), run.dtype(work)
    least, wants_q = min(batch.rows, batch.columns), mode != "r"
    if suits_lanes(run, batch, dtype):
        return _in_lanes(run, work, batch, dtype, mode)
    if mode != "complete" and tall_qr.suits(run, batch, dtype):
        q, r = tall_qr.tall_qr(run, work, wants_q)
    elif mode != "complete" and 0 < batch.columns <= LANES:
        found = panel_qr.panel(run, Block.of(work), batch)
        r = found.out.reshape(batch.shape(least, batch.columns))
        q = panel_qr.panel_q(run, found, batch.shape(batch.rows, least), least) if wants_q else None
    else:
        packed, scales, kept = panel_qr.factorise(run, work)
        r = panel_qr.upper(run, packed, scales, batch.rows if mode == "complete" else least)
        width = batch.rows if mode == "complete" else least
        q = panel_qr.form_q(run, kept, batch, dtype, width) if wants_q else None
    return run.empty((0,), dtype) if q is None else q, r


def suits_lanes(run: Any, batch: Batch, dtype: str) -> bool:
    """Whether a thread has a matrix: small ones, and enough of them where they are not tiny."""
    most = max(batch.rows, batch.columns)
    chosen = policy("linalg_qr", run.family, dtype)
    return most <= chosen["tiny"] or (most <= LANES and batch.number >= chosen["least"])


def _in_lanes(run: Any, work: Any, batch: Batch, dtype: str, mode: str) -> tuple[Any, Any]:
    least = min(batch.rows, batch.columns)
    width = {"reduced": least, "complete": batch.rows, "r": 0}[mode]
    height = batch.rows if mode == "complete" else least
    q_shape = (0,) if mode == "r" else batch.shape(batch.rows, width)
    outs = (Out(q_shape, dtype), Out(batch.shape(height, batch.columns), dtype), Out((0,), dtype))
    numbers = (batch.number, batch.rows, batch.columns, width, height, 0)
    types = (dtype, capacity(max(batch.rows, batch.columns)))
    q, r, _ = run.launch(IN_LANES, types, (), (work, *outs, *numbers), lane_groups(batch.number), (LANES,))
    return q, r


def reference(A: Any, mode: str = "reduced") -> Any:
    import torch

    return torch.linalg.qr(A, mode=mode)


def samples(draw: Draw) -> Sample:
    shape = (*draw.leading(most=1), draw.size(most=33), draw.size(most=33))
    return Sample((draw.floats(shape), draw.choice(MODES)))


QR = Op(
    noun="linalg_qr",
    summary="A = Q R",
    forward=Stage("(Tensor A, str mode) -> (Tensor Q, Tensor R)", forward),
    reference=reference,
    samples=samples,
    public_outputs=2,
    namesake="torch.linalg.qr",
)
OPS = (QR,)

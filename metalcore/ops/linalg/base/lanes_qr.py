"""QR with a matrix a thread: kernels/linalg/qr.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.linalg.base.matrix import LANES, Batch, capacity, lane_groups
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

IN_LANES = Kernel("linalg/qr", "qr_lanes")


def suits_lanes(run: Runtime, batch: Batch, dtype: str) -> bool:
    """Whether a thread has a matrix: small ones, and enough of them where they are not tiny."""
    most = max(batch.rows, batch.columns)
    chosen = policy("linalg_qr", run.family, dtype)
    return most <= chosen["tiny"] or (most <= LANES and batch.number >= chosen["least"])


def in_lanes(run: Runtime, work: Any, batch: Batch, dtype: str, mode: str) -> tuple[Any, Any, Any]:
    """Q, R and nothing for "reduced" and "complete"; nothing, R and nothing for "r"; what geqrf returns, nothing and
    tau for "packed"."""
    rows, columns = batch.rows, batch.columns
    least, is_packed = min(rows, columns), mode == "packed"
    width = {"reduced": least, "complete": rows, "r": 0, "packed": columns}[mode]
    height = {"reduced": least, "complete": rows, "r": least, "packed": 0}[mode]
    outs = dict(
        q=Out((0,) if mode == "r" else batch.shape(rows, width), dtype),
        r=Out((0,) if is_packed else batch.shape(height, columns), dtype),
        tau=Out(batch.shape(least) if is_packed else (0,), dtype),
    )
    numbers = dict(count=batch.number, row_count=rows, column_count=columns)
    numbers |= dict(q_columns=width, r_rows=height, is_packed=int(is_packed))
    types = (dtype, capacity(max(rows, columns)))
    q, r, tau = run.launch(IN_LANES, types, (), dict(a=work, **outs, **numbers), lane_groups(batch.number), (LANES,))
    return q, r, tau

"""QR of matrices with many rows and few columns: kernels/linalg/tall_qr.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.linalg.base.matrix import LANES, Batch, capacity
from metalcore.ops.linalg.base.panel_qr import panel, panel_q
from metalcore.ops.linalg.base.product import Block
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

UP = Kernel("linalg/tall_qr", "tall_qr_up")
DOWN = Kernel("linalg/tall_qr", "tall_qr_down")
CHUNK = 24  # rows that a thread takes in at a time


def suits(run: Runtime, batch: Batch, dtype: str) -> bool:
    """Whether a matrix is tall enough for a tree."""
    chosen = policy("linalg_tall_qr", run.family, dtype)
    return 0 < batch.columns <= LANES and batch.rows >= chosen["rows"] * batch.columns


def tall_qr(run: Runtime, work: Any, wants_q: bool) -> tuple[Any, Any]:
    """Q (None where it is not wanted) and R, reduced."""
    batch, dtype = Batch.of(work), run.dtype(work)
    number, rows, n = batch.number, batch.rows, batch.columns
    chosen = policy("linalg_tall_qr", run.family, dtype)
    types = (dtype, max(8, capacity(n)))
    slabs = -(-(rows - n) // LANES)
    shares = max(1, min(chosen["groups"], slabs // (chosen["least"] * n)))
    steps = 1 + -(-(-(-slabs // shares) - n) // CHUNK)
    outs = dict(
        v=Out((number * slabs * n * LANES,), dtype),
        tau=Out((number * shares * steps * n * LANES,), dtype),
        r=Out((number * shares, LANES * n, n), dtype),
    )
    groups = (shares, number, 1)
    v, tau, stack = run.launch(
        UP, types, (), dict(a=work, **outs, row_count=rows, column_count=n, chunk_rows=CHUNK), groups, (LANES,)
    )
    second = panel(run, Block.of(stack), Batch.of(stack))
    stack = second.out.reshape(number, shares * n, n)
    third = panel(run, Block.of(stack), Batch.of(stack), head=work, head_rows=n)
    r = third.out.reshape(batch.shape(n, n))
    if not wants_q:
        return None, r
    top_rows = (shares + 1) * n
    top = panel_q(run, third, (number, top_rows, n), n)
    above = panel_q(run, second, (number * shares, LANES * n, n), n, top, shares)
    arguments = dict(above=above, top=top, v=v, tau=tau, q=Out(batch.shape(rows, n), dtype))
    arguments |= dict(row_count=rows, column_count=n, chunk_rows=CHUNK, top_rows=top_rows)
    (q,) = run.launch(DOWN, types, (), arguments, groups, (LANES,))
    return q, r

"""The plans of A = Q R that other families use too."""

from __future__ import annotations

from typing import Any

from metalcore.ops.linalg.base import panel_qr, tall_qr
from metalcore.ops.linalg.base.lanes_qr import in_lanes, suits_lanes
from metalcore.ops.linalg.base.matrix import LANES, Batch
from metalcore.ops.linalg.base.product import Block, matmul, update
from metalcore.ops.linalg.base.reflectors import copied
from metalcore.ops.linalg.base.triangular import solve_triangular, triangle
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

SIGNS = Kernel("linalg/polar", "positive_diagonal")


def factorise(run: Runtime, work: Any, mode: str) -> tuple[Any, Any]:
    """Q and R of a contiguous float32 (or float64) array of matrices; Q is an array of no elements in mode "r"."""
    batch, dtype = Batch.of(work), run.dtype(work)
    least, wants_q = min(batch.rows, batch.columns), mode != "r"
    if suits_lanes(run, batch, dtype):
        return in_lanes(run, work, batch, dtype, mode)[:2]
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


def positive_qr(run: Runtime, work: Any) -> tuple[Any, Any]:
    """Q and R, reduced, with no negative number on R's diagonal; of at least as many rows as columns."""
    batch, dtype = Batch.of(work), run.dtype(work)
    q, r = factorise(run, work, "reduced")
    outs = dict(q_out=Out(tuple(q.shape), dtype), r_out=Out(tuple(r.shape), dtype))
    groups = (batch.rows + batch.columns, batch.number, 1)
    group = (policy("linalg_panel_qr", run.family, dtype)["row_threads"],)
    q, r = run.launch(
        SIGNS, (dtype,), (), dict(q=q, r=r, **outs, row_count=batch.rows, column_count=batch.columns), groups, group
    )
    return q, r


def orthogonal_gradient(run: Runtime, dq: Any, dr: Any, q: Any, r: Any) -> Any:
    """[dQ + Q S] R^-T for a square R, where S is symmetric with the upper triangle of dR R^T - Q^T dQ; `dr` may be
    None. The signs of R's diagonal do not matter."""
    if dr is None:
        inner = matmul(run, q, dq, transpose_a=True, alpha=-1.0)
    else:
        inner = matmul(run, dr, r, transpose_b=True)
        inner = update(run, Block.of(inner), Block.of(q), Block.of(dq), alpha=-1.0, transpose_a=True)
    inner = triangle(run, inner, upper=True, mirrored=True)
    whole = copied(run, dq) if run.writes_in_place else dq
    whole = update(run, Block.of(whole), Block.of(q), Block.of(inner))
    return solve_triangular(run, r, whole, upper=True, transpose=True, left=False)

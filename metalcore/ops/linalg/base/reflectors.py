"""Reflectors that somebody gave, and matrices copied and joined: kernels/linalg/reflectors.metal, householder.metal."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.linalg.base.matrix import LANES, Batch
from metalcore.ops.linalg.base.panel_qr import Reflectors, threads
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

COMPACT = Kernel("linalg/reflectors", "compact_reflectors")
COPY = Kernel("linalg/householder", "householder_copy")
JOIN = Kernel("linalg/householder", "householder_join")


def compact(run: Runtime, a: Any, tau: Any) -> list[Reflectors]:
    """I - V T V^T for each 32 of the reflectors below the diagonal of `a`."""
    batch, dtype, count = Batch.of(a), run.dtype(a), tau.shape[-1]
    kept = []
    for first in range(0, count, LANES):
        rows = batch.rows - first
        outs = dict(v=Out(batch.shape(rows, LANES), dtype), t=Out(batch.shape(LANES, LANES), dtype))
        arguments = dict(
            a=a, tau=tau, **outs, row_count=batch.rows, column_count=batch.columns, all_reflectors=count, first=first
        )
        group = threads(run, dtype, rows)
        v, t = run.launch(COMPACT, (dtype,), (), arguments, (batch.number,), group)
        kept.append(Reflectors(v, t, first))
    return kept


def copied(run: Runtime, array: Any) -> Any:
    """A new array that may be changed."""
    dtype, shape = run.dtype(array), tuple(array.shape)
    size = math.prod(shape)
    group = policy("elementwise", run.family, dtype)["threads"]
    (out,) = run.launch(
        COPY, (dtype,), (), dict(a=array, out=Out(shape, dtype), size=size), (-(-size // group),), (group,)
    )
    return out


def joined(run: Runtime, left: Any, right: Any) -> Any:
    """The columns of two contiguous arrays of matrices beside each other."""
    dtype, shape = run.dtype(left), (*left.shape[:-1], left.shape[-1] + right.shape[-1])
    arguments = dict(
        left=left, right=right, out=Out(shape, dtype), left_columns=left.shape[-1], right_columns=right.shape[-1]
    )
    (out,) = run.launch(JOIN, (dtype,), (), arguments, (math.prod(shape[:-1]),), (LANES,))
    return out

"""Reflectors that somebody gave, and matrices copied and joined: kernels/linalg/reflectors.metal, householder.metal."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.linalg.base.matrix import LANES, Batch
from metalcore.ops.linalg.base.panel_qr import Reflectors, threads
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy

COMPACT = Kernel("linalg/reflectors", "compact_reflectors")
COPY = Kernel("linalg/householder", "householder_copy")
JOIN = Kernel("linalg/householder", "householder_join")


def compact(run: Any, a: Any, tau: Any) -> list[Reflectors]:
    """I - V T V^T for each 32 of the reflectors below the diagonal of `a`."""
    batch, dtype, count = Batch.of(a), run.dtype(a), tau.shape[-1]
    kept = []
    for first in range(0, count, LANES):
        rows = batch.rows - first
        outs = (Out(batch.shape(rows, LANES), dtype), Out(batch.shape(LANES, LANES), dtype))
        arguments = (a, tau, *outs, batch.rows, batch.columns, count, first)
        group = threads(run, dtype, rows)
        v, t = run.launch(COMPACT, (dtype,), (), arguments, (batch.number,), group)
        kept.append(Reflectors(v, t, first))
    return kept


def copied(run: Any, array: Any) -> Any:
    """A new array that may be changed."""
    dtype, shape = run.dtype(array), tuple(array.shape)
    size = math.prod(shape)
    group = policy("elementwise", run.family, dtype)["threads"]
    (out,) = run.launch(COPY, (dtype,), (), (array, Out(shape, dtype), size), (-(-size // group),), (group,))
    return out


def joined(run: Any, left: Any, right: Any) -> Any:
    """The columns of two contiguous arrays of matrices beside each other."""
    dtype, shape = run.dtype(left), (*left.shape[:-1], left.shape[-1] + right.shape[-1])
    arguments = (left, right, Out(shape, dtype), left.shape[-1], right.shape[-1])
    (out,) = run.launch(JOIN, (dtype,), (), arguments, (math.prod(shape[:-1]),), (LANES,))
    return out

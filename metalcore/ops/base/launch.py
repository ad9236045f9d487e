"""Launch shapes that ops share."""

from __future__ import annotations

import math
from typing import Any

from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

COLUMN_SUM = Kernel("column_sum", "column_sum")


def accumulator(dtype: str) -> str:
    """What MSL calls float: float32, or float64 where the engine reads it as double."""
    return "float64" if dtype == "float64" else "float32"


def vector_width(run: Runtime, op: str, dtype: str, count: int) -> int:
    """Elements that a thread takes at once: the policy's, where `count` is a multiple of it."""
    vector: int = policy(op, run.family, dtype)["vector"]
    return 1 if count % vector else vector


def row_launch(run: Runtime, op: str, dtype: str, width: int) -> tuple[int, tuple[int]]:
    """For a kernel that gives a row to one threadgroup: elements a thread takes at once, and the group's size."""
    vector = vector_width(run, op, dtype, width)
    most: int = policy(op, run.family, dtype)["threads"]
    return vector, (min(most, max(32, -(-width // (32 * vector)) * 32)),)


def blocks_for(run: Runtime, op: str, dtype: str, rows: int) -> tuple[int, int]:
    """Blocks of rows that are summed apart, and rows in each."""
    each = max(1, -(-rows // policy(op, run.family, dtype)["blocks"]))
    return -(-rows // each), each


def column_sum(run: Runtime, shares: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """The sum over the rows of `shares`, as an array of this shape and dtype."""
    width = math.prod(shape)
    threads: int = policy("column_sum", run.family, dtype)["threads"]
    arguments = dict(shares=shares, out=Out(shape, dtype), rows=shares.shape[0], width=width)
    (out,) = run.launch(COLUMN_SUM, (dtype,), (), arguments, (-(-width // threads),), (threads,))
    return out

"""Small steps of gradients: kernels/linalg/symmetric.metal."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.linalg.base.matrix import LANES
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

ADD_TRANSPOSE = Kernel("linalg/symmetric", "add_transpose")
IDENTITY = Kernel("linalg/symmetric", "fill_identity")


def add_transpose(run: Runtime, a: Any, scale: float = 1.0) -> Any:
    """scale (a + a^T) of a contiguous array of square matrices."""
    n, dtype = a.shape[-1], run.dtype(a)
    arguments = dict(a=a, out=Out(tuple(a.shape), dtype), size=n, scale=scale)
    groups = (-(-n // LANES), math.prod(a.shape[:-2]))
    (out,) = run.launch(ADD_TRANSPOSE, (dtype,), (), arguments, groups, (LANES,))
    return out


def identity(run: Runtime, leading: tuple[int, ...], n: int, dtype: str) -> Any:
    """The identity of n rows, for each matrix."""
    arguments = dict(out=Out((*leading, n, n), dtype), size=n)
    (out,) = run.launch(IDENTITY, (dtype,), (), arguments, (-(-n // LANES), math.prod(leading)), (LANES,))
    return out

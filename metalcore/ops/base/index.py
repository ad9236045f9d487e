"""Indices that come from data: their types, and what is said about a wrong one."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.base.check import check_kind
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

INDEX_TYPES = ("int64", "int32")
"""What torch takes; mlx gives uint32, which is taken too."""
NARROW = Kernel("narrow", "narrow_indices")
_THREADS = 32


def check_index(op: str, argument: str, array: Any) -> str:
    """The dtype's name, where it is one of indices."""
    return check_kind(op, argument, array, (*INDEX_TYPES, "uint32"))


def narrowed(run: Runtime, array: Any) -> Any:
    """Indices as int32. A number that does not fit becomes one that is out of range too, not what its low bits are."""
    array = run.contiguous(array)
    dtype, count = run.dtype(array), math.prod(array.shape)
    if dtype == "int32":
        return array
    arguments = dict(x=array, y=Out(tuple(array.shape), "int32"), count=count)
    (found,) = run.launch(NARROW, (dtype,), (), arguments, (-(-count // _THREADS),), (_THREADS,))
    return found


def explain_index(op: str, argument: str, place: int, value: int, size: int) -> str:
    return f"{op}: {argument} has {value} at place {place}, which is out of range: it must be in 0 to {size - 1}"

"""Batches of matrices: their shapes, what is checked of them, and in which dtype they are worked on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from metalcore import settings
from metalcore.ops.base.check import check_array, check_float, refuse
from metalcore.ops.base.launch import accumulator
from metalcore.runtimes.runtime import Runtime

LANES = 32
CAPACITIES = (4, 8, 16, 32)


class Batch(NamedTuple):
    """The shape of an array of matrices: `leading` dimensions, `number` matrices of `rows` x `columns`."""

    leading: tuple[int, ...]
    number: int
    rows: int
    columns: int

    @staticmethod
    def of(array: Any) -> Batch:
        *leading, rows, columns = array.shape
        return Batch(tuple(leading), math.prod(leading), rows, columns)

    def shape(self, *last: int) -> tuple[int, ...]:
        """The leading dimensions, then these."""
        return (*self.leading, *last)


def check_matrix(op: str, argument: str, array: Any) -> str:
    """The dtype's name of an array of matrices."""
    if (dtype := check_array(op, argument, array)).startswith("complex"):
        refuse(op, argument, "real: complex matrices are not supported", f"of dtype {dtype}")
    dtype = check_float(op, argument, array)
    if len(array.shape) < 2:
        refuse(op, argument, "a matrix or a batch of them", f"of shape {tuple(array.shape)}")
    return dtype


def check_square(op: str, argument: str, array: Any) -> str:
    dtype = check_matrix(op, argument, array)
    if array.shape[-1] != array.shape[-2]:
        refuse(op, argument, "square, or a batch of square matrices", f"of shape {tuple(array.shape)}")
    return dtype


def check_system(op: str, argument: str, array: Any, B: Any) -> None:
    """A square matrix and right-hand sides of its dtype."""
    dtype = check_square(op, argument, array)
    if (given := check_matrix(op, "B", B)) != dtype:
        refuse(op, "B", f"of {argument}'s dtype, {dtype}", f"of dtype {given}")


def promoted(run: Runtime, array: Any) -> Any:
    """The array as factorisations work on it: rows one after the other, float32 (float64 stays, for gradcheck)."""
    return run.contiguous(run.cast(array, accumulator(run.dtype(array))))


def kept(run: Runtime, given: str, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """What a gradient needs of results before they were rounded to the input's dtype; nothing where they were not."""
    return tuple(run.empty((0,), run.dtype(a)) if run.dtype(a) == given else a for a in arrays)


def unrounded(run: Runtime, results: Sequence[Any], wide: Sequence[Any]) -> list[Any]:
    """The results as they were before they were rounded, from what was kept of them."""
    return [promoted(run, r if 0 in w.shape else w) for r, w in zip(results, wide, strict=True)]


def capacity(size: int) -> int:
    """The capacity of the kernel with a matrix a thread that takes this size."""
    return next(c for c in CAPACITIES if size <= c)


THREADS = 256
"""In a threadgroup of a kernel with an element a thread."""


def thread_groups(count: int) -> tuple[int]:
    """Threadgroups of a kernel with an element a thread."""
    return (-(-count // THREADS),)


def lane_groups(count: int) -> tuple[int]:
    """Threadgroups of a kernel with a matrix a thread."""
    return (-(-count // LANES),)


def strip_groups(groups: int, strips: int, number: int) -> int:
    """Threadgroups that share a matrix's vectors, `groups` at once (0: as many as the engine runs). Each of them finds
    all rotations itself, so more than that would cost time."""
    return min(strips, -(-(groups or settings.num_threads()) // max(1, number)))

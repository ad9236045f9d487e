"""Dimensions of an array brought to where kernels want them, by exchanging pairs: what every framework's arrays can."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from metalcore.ops.base.check import refuse
from metalcore.runtimes.runtime import Runtime

INTEGERS = (int, np.integer)
"""What a dimension may be."""


class Reduced(NamedTuple):
    """A contiguous array seen as (outer, width, inner), to be reduced along `width`."""

    array: Any
    outer: int
    width: int
    inner: int
    exchanges: tuple[tuple[int, int], ...]
    """Pairs of dimensions that were exchanged, one after the other."""

    @staticmethod
    def of(run: Runtime, array: Any, dims: Sequence[int]) -> Reduced:
        """`dims` in ascending order. Where they are neighbours nothing has to move."""
        shape = tuple(array.shape)
        if not dims:
            return Reduced(run.contiguous(array), math.prod(shape), 1, 1, ())
        begin, end = dims[0], dims[-1] + 1
        sizes = shape[:begin], shape[begin:end], shape[end:]
        exchanges: tuple[tuple[int, int], ...] = ()
        if end - begin != len(dims):
            exchanges = _to_the_end(len(shape), dims)
            sizes = tuple(s for i, s in enumerate(shape) if i not in dims), tuple(shape[d] for d in dims), ()
            for pair in exchanges:
                array = array.swapaxes(*pair)
        outer, width, inner = map(math.prod, sizes)
        return Reduced(run.contiguous(array), outer, width, inner, exchanges)

    def restored(self, array: Any) -> Any:
        """An array like this one, with its dimensions where they were."""
        for pair in reversed(self.exchanges):
            array = array.swapaxes(*pair)
        return array


def to_the_end(array: Any, dims: Sequence[int]) -> Any:
    """The array with these dimensions last, in this order, and the others before them in theirs."""
    for pair in _to_the_end(len(array.shape), dims):
        array = array.swapaxes(*pair)
    return array


def _to_the_end(count: int, dims: Sequence[int]) -> tuple[tuple[int, int], ...]:
    wanted = [*(i for i in range(count) if i not in dims), *dims]
    now, pairs = list(range(count)), []
    for place, dim in enumerate(wanted):
        at = now.index(dim)
        if at != place:
            now[place], now[at] = now[at], now[place]
            pairs.append((place, at))
    return tuple(pairs)


def several(op: str, dim: Any) -> tuple[Any, ...]:
    """Dimensions, of which one may stand alone."""
    if isinstance(dim, INTEGERS) or (getattr(dim, "shape", None) == () and hasattr(dim, "__index__")):
        return (int(dim),)
    if not hasattr(dim, "__iter__") or getattr(dim, "shape", None) == ():
        refuse(op, "dim", "an int, or several", repr(dim))
    return tuple(dim)


def check_dims(op: str, dim: Any, count: int) -> tuple[int, ...]:
    """Dimensions counted from 0, in ascending order; None and () are all of them."""
    room, given = max(count, 1), () if dim is None else several(op, dim)
    if not given:
        return tuple(range(count))
    for one in given:
        if not isinstance(one, INTEGERS) or not -room <= one < room:
            refuse(op, "dim", f"from {-room} to {room - 1}", repr(one))
    if count == 0:
        return ()
    dims = sorted(int(one) % room for one in given)
    if len(set(dims)) != len(dims):
        refuse(op, "dim", "different dimensions", repr(dim))
    return tuple(dims)

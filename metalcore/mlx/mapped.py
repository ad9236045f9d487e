"""mx.vmap: the mapped axis becomes a leading one where all mapped arrays may have any leading shape; else the op is
called for one after the other, and the results are stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.ops.base.op import Op


def _is_mapped(axis: Any) -> bool:
    return axis is not None and axis >= 0


def count_of(arrays: Sequence[Any], axes: Sequence[Any]) -> int:
    return next(int(x.shape[axis]) for x, axis in zip(arrays, axes, strict=True) if _is_mapped(axis))


def can_fold(op: Op, names: Sequence[str], axes: Sequence[Any]) -> bool:
    """Whether only such arrays are mapped."""
    return bool(op.batched) and all(n in op.batched for n, axis in zip(names, axes, strict=True) if _is_mapped(axis))


def first(x: Any, axis: Any) -> Any:
    """What one call sees of an array: its shape counts alone."""
    if not _is_mapped(axis):
        return x
    shape = list(x.shape)
    del shape[axis]
    return mlx_module().zeros(shape, x.dtype)


def leading(op: Op, names: Sequence[str], arrays: Sequence[Any], axes: Sequence[Any]) -> list[Any]:
    """Arrays for one call: those with any leading shape all have the mapped axis first."""
    mx, count = mlx_module(), count_of(arrays, axes)
    found = []
    for name, x, axis in zip(names, arrays, axes, strict=True):
        if _is_mapped(axis):
            x = mx.moveaxis(x, axis, 0)
        elif name in op.batched:
            x = mx.broadcast_to(x[None], (count, *x.shape))
        found.append(x)
    return found


def one_by_one(call: Callable[..., Any], arrays: Sequence[Any], axes: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """A call for each, and the results stacked; of none a call on zeros, for the shapes."""
    mx, count = mlx_module(), count_of(arrays, axes)
    if not count:
        found = call(*[first(x, axis) for x, axis in zip(arrays, axes, strict=True)])
        outputs = found if isinstance(found, (list, tuple)) else [found]
        return [mx.zeros((0, *y.shape), y.dtype) for y in outputs], [0] * len(outputs)
    rows = []
    for i in range(count):
        one = [mx.moveaxis(x, axis, 0)[i] if _is_mapped(axis) else x for x, axis in zip(arrays, axes, strict=True)]
        found = call(*one)
        rows.append(found if isinstance(found, (list, tuple)) else [found])
    stacked = [mx.stack(list(column)) for column in zip(*rows, strict=True)]
    return stacked, [0] * len(stacked)

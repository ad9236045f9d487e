"""Leading dimensions that are the same for several arrays, in the words of each framework: their own views, so that
gradients are summed by the framework."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.dropins.arrays import mlx_module
from metalcore.ops.base.check import refuse


def common_shape(op: str, argument: str, one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The leading dimensions that arrays with these leading dimensions have together."""
    length = max(len(one), len(other))
    first, second = (1,) * (length - len(one)) + tuple(one), (1,) * (length - len(other)) + tuple(other)
    shape = []
    for a, b in zip(first, second, strict=True):
        if a != b and 1 not in (a, b):
            refuse(op, argument, f"of leading dimensions that go with {tuple(one)}", tuple(other))
        shape.append(b if a == 1 else a)
    return tuple(shape)


def broadcast_to(array: Any, shape: tuple[int, ...]) -> Any:
    """A view of this shape; the array itself where it has that already."""
    if tuple(array.shape) == shape:
        return array
    if isinstance(array, np.ndarray):
        return np.broadcast_to(array, shape)
    return array.expand(shape) if hasattr(array, "expand") else mlx_module().broadcast_to(array, shape)

"""Leading dimensions of two arrays brought to one shape, by the framework's own views: their gradients are its own."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from metalcore.ops.base.check import refuse


def broadcast(op: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Both arrays with the same leading dimensions; two matrices as they are."""
    first, second = tuple(a.shape[:-2]), tuple(b.shape[:-2])
    if first == second:
        return a, b
    leading = common(op, first, second)
    return expand(a, (*leading, *a.shape[-2:])), expand(b, (*leading, *b.shape[-2:]))


def common(op: str, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that both broadcast to."""
    try:
        return tuple(np.broadcast_shapes(first, second))
    except ValueError:
        refuse(op, "the batch dimensions of both arrays", f"ones that broadcast with {first}", second)


def expand(array: Any, shape: tuple[int, ...]) -> Any:
    """A view of the array with this shape."""
    if tuple(array.shape) == shape:
        return array
    if hasattr(array, "expand"):
        return array.expand(shape)
    mlx = sys.modules.get("mlx.core")
    if mlx is not None and isinstance(array, mlx.array):
        return mlx.broadcast_to(array, shape)
    return np.broadcast_to(array, shape)

"""Draws that gather, index_select and scatter_add share."""

from __future__ import annotations

from metalcore.health.draw import Draw, Values
from metalcore.ops.base.index import INDEX_TYPES


def draw_shape(draw: Draw) -> tuple[tuple[int, ...], int]:
    """A shape of one to three dimensions, and one of them."""
    last = draw.size(most=300)
    shape = (*(draw.choice((1, 2, 5, 33)) for _ in range(draw.integer(0, 2))), last)
    return shape, draw.integer(-len(shape), len(shape) - 1)


def draw_index(draw: Draw, shape: tuple[int, ...], dim: int) -> Values:
    """An index of any length along `dim`, and beside it as large as the shape, or smaller."""
    covered = list(shape)
    covered[dim] = draw.choice((0, 1, 3, 40)) if shape[dim] else 0
    if draw.chance(0.3):
        covered = [max(1, n // 2) if n and i != dim % len(shape) else n for i, n in enumerate(covered)]
    return draw.integers(tuple(covered), 0, max(0, shape[dim] - 1), draw.choice(INDEX_TYPES))

"""Draws that norms of a sum share."""

from __future__ import annotations

import numpy as np

from metalcore.health.draw import Draw, Values


def draw_terms(draw: Draw, shape: tuple[int, ...]) -> tuple[Values, Values]:
    """Two terms of a sum. In a short row the rounding of the sum decides the gradient: there the sum is exact."""
    x, residual = draw.floats(shape), draw.floats(shape)
    if shape[-1] >= 31:
        return x, residual
    return _coarse(x), _coarse(residual)


def _coarse(found: Values) -> Values:
    return Values(np.round(found.values * 16) / 16, found.layout)

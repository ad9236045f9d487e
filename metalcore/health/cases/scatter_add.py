"""Fuzzed cases of scatter_add, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.base.indexed import draw_index, draw_shape
from metalcore.health.draw import Draw, Sample


def reference(input: Any, dim: int, index: Any, src: Any) -> Any:
    import torch

    cut = src[tuple(slice(0, size) for size in index.shape)]  # torch has no gradient of a larger src
    return torch.scatter_add(input, dim, index.long(), cut)


def samples(draw: Draw) -> Sample:
    shape, dim = draw_shape(draw)
    index = draw_index(draw, shape, dim)
    larger = int(draw.chance(0.2))
    given = tuple(n + larger for n in index.values.shape)
    return Sample((draw.floats(shape), dim, index, draw.floats(given)))

"""Fuzzed cases of index_select, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.base.indexed import draw_shape
from metalcore.health.draw import Draw, Sample
from metalcore.ops.base.index import INDEX_TYPES


def reference(input: Any, dim: int, index: Any) -> Any:
    import torch

    return torch.index_select(input, dim, index)


def samples(draw: Draw) -> Sample:
    shape, dim = draw_shape(draw)
    count = draw.choice((0, 1, 3, 40)) if shape[dim] else 0
    index = draw.integers((count,), 0, max(0, shape[dim] - 1), draw.choice(INDEX_TYPES))
    return Sample((draw.floats(shape), dim, index))

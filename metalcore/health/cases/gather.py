"""Fuzzed cases of gather, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.base.indexed import draw_index, draw_shape
from metalcore.health.draw import Draw, Sample


def reference(input: Any, dim: int, index: Any) -> Any:
    import torch

    return torch.gather(input, dim, index.long())


def samples(draw: Draw) -> Sample:
    shape, dim = draw_shape(draw)
    index = draw_index(draw, shape, dim)
    return Sample((draw.floats(shape), dim, index))

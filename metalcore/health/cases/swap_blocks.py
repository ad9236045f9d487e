"""Fuzzed cases of swap_blocks, and the op in plain torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.health.draw import Draw, Sample, Values
from metalcore.ops.base.index import INDEX_TYPES


def reference(src: Any, dst: Any, block_mapping: Any) -> None:
    pairs = block_mapping.long()
    dst[pairs[:, 1]] = src[pairs[:, 0]]


def samples(draw: Draw) -> Sample:
    size, shape = draw.size(most=1031), draw.choice(((), (1,), (2, 3)))
    sources, targets = draw.choice((1, 2, 7)), draw.choice((1, 3, 8))
    pairs = draw.integer(0, targets)
    kind = draw.choice(INDEX_TYPES)
    mapping = np.stack([np.arange(pairs) % sources, draw.distinct(pairs, targets)], 1).astype(kind)
    arrays = _arrays(draw, (sources, *shape, size), (targets, *shape, size))
    return Sample((*arrays, Values(mapping, is_float=False, grad=False)))


def _arrays(draw: Draw, src: tuple[int, ...], dst: tuple[int, ...]) -> tuple[Values, Values]:
    """Caches of floats, or of fp8; the source in any layout."""
    if draw.chance(0.3):
        return draw.integers(src, 0, 255, "uint8"), draw.integers(dst, 0, 255, "uint8", "contiguous")
    return draw.floats(src, grad=False), draw.floats(dst, layout="contiguous", grad=False)

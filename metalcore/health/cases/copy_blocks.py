"""Fuzzed cases of copy_blocks, and the op in plain torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.health.draw import Draw, Sample, Values
from metalcore.ops.base.index import INDEX_TYPES


def reference(key_caches: Any, value_caches: Any, block_mapping: Any) -> None:
    pairs = block_mapping.long()
    for cache in (key_caches, value_caches):
        cache[pairs[:, 1]] = cache[pairs[:, 0]]


def samples(draw: Draw) -> Sample:
    size, value_size = draw.size(most=1031), draw.choice((1, 31, 33))
    blocks = draw.choice((1, 2, 7, 16))
    order = draw.distinct(blocks, blocks, draw.choice(INDEX_TYPES))
    targets = order[: draw.integer(0, blocks - 1)]
    sources = order[len(targets) :]
    mapping = np.stack([np.resize(sources, len(targets)), targets], 1)
    caches = []
    is_fp8 = draw.chance(0.3)
    for shape in ((blocks, size), (blocks, 2, value_size)):
        fp8 = draw.integers(shape, 0, 255, "uint8", "contiguous")
        caches.append(fp8 if is_fp8 else draw.floats(shape, layout="contiguous", grad=False))
    return Sample((*caches, Values(mapping, is_float=False, grad=False)))

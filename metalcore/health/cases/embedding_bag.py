"""Fuzzed cases of embedding_bag, and the op in plain torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.health.draw import Draw, Sample, Values
from metalcore.ops.base.index import INDEX_TYPES


def reference(input: Any, weight: Any, offsets: Any = None, **named: Any) -> Any:
    import torch

    return torch.nn.functional.embedding_bag(input, weight, offsets, **named)


def samples(draw: Draw) -> Sample:
    dim = draw.size(least=1, most=520)
    rows = draw.choice((1, 2, 7, 33, 100, 1031) if dim < 100 else (1, 2, 33))
    kind = draw.choice(INDEX_TYPES)
    weight = draw.floats((rows, dim))
    mode = draw.choice(("sum", "sum", "mean", "max"))
    named: dict[str, Any] = {"mode": mode}
    if draw.chance(0.4):
        shape: tuple[int, ...] = (draw.choice((0, 1, 5, 33)), draw.choice((1, 3, 17)))
        offsets = None
    else:
        sizes = [draw.choice((0, 1, 2, 9, 31)) for _ in range(draw.choice((1, 2, 7, 33)))]
        shape = (sum(sizes),)
        starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        named["include_last_offset"] = draw.chance(0.3)
        ends = np.asarray(starts if named["include_last_offset"] else starts[:-1], kind)
        offsets = Values(ends, is_float=False, grad=False)
    if mode == "sum" and draw.chance(0.5):
        named["per_sample_weights"] = draw.floats(shape, grad=draw.chance(0.7))
    if draw.chance(0.3):
        named["padding_idx"] = draw.integer(-rows, rows - 1)
    # scale_grad_by_freq is not drawn: torch on a CPU divides by the wrong row's frequency (tests have the definition).
    layout = draw.choice(("contiguous", "contiguous", "sliced"))
    return Sample((draw.integers(shape, 0, rows - 1, kind, layout), weight, offsets), named)

"""Fuzzed cases of logsumexp, and the op in plain torch."""

from __future__ import annotations

import math
from typing import Any

from metalcore.health.draw import Draw, Sample


def reference(input: Any, dim: Any, keepdim: bool = False) -> Any:
    import torch

    return torch.logsumexp(input, dim, keepdim)


def samples(draw: Draw) -> Sample:
    n = draw.size()
    shape = [*draw.leading(), n]
    dim: Any = draw.integer(-len(shape), len(shape) - 1)
    if draw.chance(0.4):
        shape[dim], shape[-1] = shape[-1], shape[dim]
    if draw.chance(0.4):
        dim = tuple(i for i in range(len(shape)) if draw.chance(0.5) or i == dim % len(shape))
    x = draw.floats(tuple(shape), -6.0, 6.0)
    if draw.chance(0.3):
        x.values[draw.floats(tuple(shape)).values > 2.0] = -math.inf
        reduced = {d % len(shape) for d in ((dim,) if isinstance(dim, int) else dim)}
        x.values[tuple(slice(0, 1 if i in reduced else None) for i in range(len(shape)))] = 0.0  # torch's is NaN there
    return Sample((x, dim, draw.chance(0.5)))

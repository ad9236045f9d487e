"""Fuzzed cases of layer_norm, and the op in plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.health.draw import Draw, Sample


def reference(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    import torch

    return torch.nn.functional.layer_norm(input, normalized_shape, weight, bias, eps)


def samples(draw: Draw) -> Sample:
    width = draw.size()
    x = draw.floats((*draw.leading(), width))
    shape = x.values.shape[-2:] if draw.chance(0.2) and len(x.values.shape) > 1 else (width,)
    weight = draw.floats(shape) if draw.chance(0.7) else None
    bias = draw.floats(shape) if draw.chance(0.6) else None
    return Sample((x, shape, weight, bias, draw.choice((1e-5, 1e-6, 1e-3))))

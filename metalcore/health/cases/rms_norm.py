"""Fuzzed cases of rms_norm, and the op in plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.health.draw import Draw, Sample


def reference(input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    import torch

    return torch.nn.functional.rms_norm(input, normalized_shape, weight, eps)


def samples(draw: Draw) -> Sample:
    width = draw.size()
    x = draw.floats((*draw.leading(), width))
    weight = draw.floats((width,)) if draw.chance(0.7) else None
    shape: Any = (width,)
    if draw.chance(0.2) and len(x.values.shape) > 1 and weight is None:
        shape = x.values.shape[-2:]
    # The default is another number in float64, which decides the gradient where a row has one element.
    default = 1e-6 if width < 8 else None
    return Sample((x, shape, weight, draw.choice((default, 1e-6, 1e-3))))

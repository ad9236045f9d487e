"""Fuzzed cases of fused_add_layer_norm, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.base.norm import draw_terms
from metalcore.health.draw import Draw, Sample


def reference(x: Any, residual: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    import torch

    total = x + residual
    return torch.nn.functional.layer_norm(total, total.shape[-1:], weight, bias, eps), total


def samples(draw: Draw) -> Sample:
    width = draw.size()
    shape = (*draw.leading(), width)
    bias = draw.floats((width,)) if draw.chance(0.8) else None
    x, residual = draw_terms(draw, shape)
    return Sample((x, residual, draw.floats((width,)), bias, draw.choice((1e-5, 1e-3))))

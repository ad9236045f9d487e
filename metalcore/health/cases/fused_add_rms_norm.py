"""Fuzzed cases of fused_add_rms_norm, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.base.norm import draw_terms
from metalcore.health.draw import Draw, Sample


def reference(x: Any, residual: Any, weight: Any, eps: float = 1e-6) -> Any:
    import torch

    total = x + residual
    return torch.nn.functional.rms_norm(total, total.shape[-1:], weight, eps), total


def samples(draw: Draw) -> Sample:
    width = draw.size()
    shape = (*draw.leading(), width)
    x, residual = draw_terms(draw, shape)
    return Sample((x, residual, draw.floats((width,)), draw.choice((1e-6, 1e-3))))

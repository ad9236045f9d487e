"""Fuzzed cases of causal_conv1d, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample
from metalcore.ops.causal_conv1d import ACTIVATIONS


def reference(x: Any, weight: Any, bias: Any = None, state: Any = None, activation: str | None = None) -> Any:
    import torch

    width, channels = weight.shape[1], weight.shape[0]
    before = x.new_zeros((*x.shape[:2], width - 1)) if state is None else state
    whole = torch.cat((before, x), dim=-1)
    if x.numel() == 0:
        y = x * weight.sum() + (0 if bias is None else bias.sum())  # conv1d takes no empty input
    else:
        y = torch.nn.functional.conv1d(whole, weight.unsqueeze(1), bias, groups=channels)
    y = y if activation is None else torch.nn.functional.silu(y)
    return y if state is None else (y, whole[..., whole.shape[-1] - (width - 1) :])


def samples(draw: Draw) -> Sample:
    length, width = draw.size(most=1031), draw.choice((1, 2, 3, 4, 4, 4, 7))
    batch, channels = draw.choice((0, 1, 1, 2, 3)), draw.choice((1, 3, 5, 8, 33))
    bias = draw.floats((channels,)) if draw.chance(0.5) else None
    state = draw.floats((batch, channels, width - 1)) if draw.chance(0.5) else None
    x = draw.floats((batch, channels, length))
    return Sample((x, draw.floats((channels, width), -1.0, 1.0), bias, state, draw.choice(ACTIVATIONS)))

"""Fuzzed cases of softcap, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample


def reference(x: Any, cap: float) -> Any:
    import torch

    return cap * torch.tanh(x / cap)


def samples(draw: Draw) -> Sample:
    x = draw.floats((*draw.leading(), draw.size()), -9.0, 9.0)
    return Sample((x, draw.choice((0.5, 3.0, 30.0, 50.0))))

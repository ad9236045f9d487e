"""Fuzzed cases of bias_silu, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample


def reference(x: Any, bias: Any) -> Any:
    import torch

    return torch.nn.functional.silu(x + bias)


def samples(draw: Draw) -> Sample:
    width = draw.size()
    return Sample((draw.floats((*draw.leading(), width), -6.0, 6.0), draw.floats((width,))))

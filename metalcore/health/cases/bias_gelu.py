"""Fuzzed cases of bias_gelu, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample
from metalcore.ops.base.elementwise import APPROXIMATIONS


def reference(x: Any, bias: Any, approximate: str = "none") -> Any:
    import torch

    return torch.nn.functional.gelu(x + bias, approximate=approximate)


def samples(draw: Draw) -> Sample:
    width = draw.size()
    x = draw.floats((*draw.leading(), width), -6.0, 6.0)
    return Sample((x, draw.floats((width,)), draw.choice(APPROXIMATIONS)))

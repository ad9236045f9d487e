"""Fuzzed cases of gelu, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample
from metalcore.ops.base.elementwise import APPROXIMATIONS


def reference(input: Any, approximate: str = "none") -> Any:
    import torch

    return torch.nn.functional.gelu(input, approximate=approximate)


def samples(draw: Draw) -> Sample:
    return Sample((draw.floats((*draw.leading(), draw.size()), -9.0, 9.0), draw.choice(APPROXIMATIONS)))

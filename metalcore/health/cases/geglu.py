"""Fuzzed cases of geglu, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample
from metalcore.ops.base.elementwise import APPROXIMATIONS


def reference(gate: Any, up: Any, approximate: str = "none") -> Any:
    import torch

    return torch.nn.functional.gelu(gate, approximate=approximate) * up


def samples(draw: Draw) -> Sample:
    shape = (*draw.leading(), draw.size())
    return Sample((draw.floats(shape, -9.0, 9.0), draw.floats(shape), draw.choice(APPROXIMATIONS)))

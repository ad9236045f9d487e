"""Fuzzed cases of silu, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample


def reference(input: Any, inplace: bool = False) -> Any:
    import torch

    return torch.nn.functional.silu(input, inplace)


def samples(draw: Draw) -> Sample:
    return Sample((draw.floats((*draw.leading(), draw.size()), -9.0, 9.0),))

"""Fuzzed cases of swiglu, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample


def reference(gate: Any, up: Any) -> Any:
    import torch

    return torch.nn.functional.silu(gate) * up


def samples(draw: Draw) -> Sample:
    shape = (*draw.leading(), draw.size())
    return Sample((draw.floats(shape, -9.0, 9.0), draw.floats(shape)))

"""The ways to a GPU, each run by the engine: its launches, and the texts for PyTorch and MLX."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from metalcore.arrays.torch import TorchArrays
from metalcore.health.routes import text_mlx, text_mps
from metalcore.runtimes.cpu import CpuRuntime

ROUTES = ["apple", *(pytest.param(f"{name} text", marks=pytest.mark.sweep) for name in ("mps", "mlx"))]


def runtime(route: str) -> Any:
    makers = {"apple": lambda: CpuRuntime(TorchArrays(), family="apple"), "mps text": text_mps, "mlx text": text_mlx}
    return makers[route]()


def array_for(route: str, tensor: torch.Tensor) -> Any:
    """The tensor as the route takes it."""
    if route != "mlx text":
        return tensor
    import mlx.core as mx

    return mx.array(tensor.numpy())

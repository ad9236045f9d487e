"""Parameters of awkward sizes and layouts, the same for every dtype and optimizer, and the error of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from metalcore.health.verify import ROUNDOFF, error_of

SHAPES = ((0,), (1,), (31,), (33, 65), (5, 0), (), (97, 3), (40009,))


def values(seed: int = 0, shapes: tuple[tuple[int, ...], ...] = SHAPES) -> list[torch.Tensor]:
    """Numbers that every dtype holds exactly."""
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=random).to(torch.bfloat16).to(torch.float32) for shape in shapes]


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers, not contiguous where there are dimensions for it."""
    if layout == "transposed" and tensor.ndim == 2:
        return tensor.t().contiguous().t()
    if layout == "sliced" and tensor.ndim >= 1:
        room = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1] + 1, dtype=tensor.dtype)
        room[..., 1::2] = tensor
        return room[..., 1::2]
    return tensor


def train(
    make: Callable[[list[torch.nn.Parameter]], Any],
    dtype: torch.dtype,
    steps: int = 10,
    layout: str = "",
    grad_layout: str = "",
) -> tuple[list[torch.nn.Parameter], Any]:
    """Parameters after some steps with random gradients, and the optimizer."""
    params = [torch.nn.Parameter(laid_out(v.to(dtype), layout)) for v in values()]
    optimizer = make(params)
    go(optimizer, params, range(steps), grad_layout)
    return params, optimizer


def go(optimizer: Any, params: list[torch.nn.Parameter], steps: range, grad_layout: str = "") -> None:
    for step in steps:
        for param, grad in zip(params, values(step + 100), strict=True):
            param.grad = laid_out(grad.to(param.dtype), grad_layout)
        optimizer.step()


def worst(found: list[Any], truth: list[Any]) -> float:
    return max(
        error_of(a.detach().double().numpy(), b.detach().double().numpy()) for a, b in zip(found, truth, strict=True)
    )


def assert_rule(ours: list[Any], plain: list[Any], truth: list[Any], dtype: torch.dtype) -> None:
    """At most twice torch's error against float64, each parameter."""
    roundoff = ROUNDOFF[str(dtype).removeprefix("torch.")]
    for i, (a, b, c) in enumerate(zip(ours, plain, truth, strict=True)):
        error, allowed = worst([a], [c]), 2 * max(worst([b], [c]), roundoff)
        assert error <= allowed, f"parameter {i}: error {error:.3g}, allowed {allowed:.3g}"

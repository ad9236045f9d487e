"""What the tests of attention share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import metalcore


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32, grad: bool = False) -> Any:
    found = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return found.to(dtype).requires_grad_(grad)


def results(run: Callable[..., Any], *inputs: Any) -> list[Any]:
    """Outputs, and gradients for fixed cotangents, of a function of fresh copies of the inputs."""
    fresh = [x.detach().clone().requires_grad_() for x in inputs]
    found = run(*fresh)
    outputs = list(found) if isinstance(found, tuple) else [found]
    cotangents = [randn(*o.shape, seed=9 + i, dtype=o.dtype) for i, o in enumerate(outputs)]
    gradients = torch.autograd.grad(outputs, fresh, cotangents)
    return [*(o.detach() for o in outputs), *gradients]


def kernels(run: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a call returns, and the variants that it launched."""
    with metalcore.explain() as log:
        found = run()
    return found, [label for row in log for label in row.kernels]


def assert_same_bits(found: Any, expected: Any) -> None:
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def assert_near(found: Any, expected: Any, tolerance: float) -> None:
    """Largest difference over the largest value."""
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert (a.double() - b.double()).abs().max() <= tolerance * max(1.0, b.double().abs().max().item())

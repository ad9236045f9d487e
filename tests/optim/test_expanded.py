"""Gradients that are one element seen many times, as that of `x.sum()` is: torch takes them, and so does a step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from metalcore import optim


@pytest.mark.parametrize("name", ["AdamW", "Adam", "SGD"])
@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_an_expanded_gradient(name: str, shape: tuple[int, ...]) -> None:
    ours, theirs = (
        torch.nn.Parameter(torch.linspace(-1, 1, 12)[: 4 * (len(shape) * 2 - 1)].reshape(shape)) for _ in "ab"
    )
    steps: list[Any] = [getattr(optim, name)([ours], lr=0.1), getattr(torch.optim, name)([theirs], lr=0.1)]
    gradients = [torch.tensor([0.5]).expand(shape), torch.randn(shape), torch.tensor(2.0).expand(shape)]
    for gradient in gradients:  # a plan is kept in between and must not be taken for an expanded one
        before = gradient.clone()
        for parameter, optimizer in zip((ours, theirs), steps, strict=True):
            parameter.grad = gradient
            optimizer.step()
        assert torch.equal(gradient, before)
        torch.testing.assert_close(ours, theirs)


def test_the_gradient_of_a_sum() -> None:
    parameter = torch.nn.Parameter(torch.zeros(8))
    parameter.grad = torch.autograd.grad(parameter.sum(), parameter)[0]
    assert parameter.grad.stride() == (0,)
    optim.AdamW([parameter], lr=0.1, weight_decay=0).step()
    torch.testing.assert_close(parameter.detach(), torch.full((8,), -0.1))

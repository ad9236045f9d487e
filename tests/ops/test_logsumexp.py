"""logsumexp beside the error rule: several dimensions, what is not finite, bad input, torch's own checks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from tests.ops import contract


def test_opcheck() -> None:
    assert contract.opcheck("logsumexp", torch.randn(3, 5, requires_grad=True), -1, 1, False)


def test_compiles_to_one_graph() -> None:
    assert contract.compiled_agrees(lambda x: metalcore.logsumexp(x, -1), torch.randn(6, 8))


@pytest.mark.sweep
def test_launches_of_a_gpu() -> None:
    assert contract.gpu_launches_agree("logsumexp", *contract.floats((3, 516)), -1)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, -1, (0, 1), (1, 2), (0, 2), (2, 0), (0, 1, 2)])
def test_dimensions(dim: Any, keepdim: bool) -> None:
    x = torch.randn(2, 3, 4)
    found = metalcore.logsumexp(x, dim, keepdim)
    truth = torch.logsumexp(x, dim, keepdim)
    assert found.shape == truth.shape
    assert torch.allclose(found, truth, atol=1e-6)


def test_what_is_not_finite_comes_as_in_torch() -> None:
    inf, nan = math.inf, math.nan
    x = torch.tensor([[-inf, -inf], [-inf, 1.0], [inf, 1.0], [nan, 1.0], [inf, nan], [inf, -inf]])
    for dim, given in ((-1, x), (0, x.T.contiguous())):
        found, truth = metalcore.logsumexp(given, dim), torch.logsumexp(given, dim)
        assert torch.allclose(found, truth, equal_nan=True)


def test_nothing_but_minus_infinity_has_the_gradient_0() -> None:
    x = torch.full((2, 3), -math.inf, requires_grad=True)
    for dim in (0, 1):
        y = metalcore.logsumexp(x, dim)
        assert torch.equal(y, torch.full_like(y, -math.inf))
        assert torch.equal(torch.autograd.grad(y.sum(), x)[0], torch.zeros(2, 3))


def test_large_values_do_not_overflow() -> None:
    x = torch.full((1, 9001), 3e4)
    assert torch.allclose(metalcore.logsumexp(x, -1), torch.logsumexp(x, -1))


@pytest.mark.parametrize(("shape", "dim"), [((0, 3), 0), ((3, 0), 1), ((0, 3), 1)])
def test_no_elements(shape: tuple[int, int], dim: int) -> None:
    x = torch.ones(shape, requires_grad=True)
    y = metalcore.logsumexp(x, dim)
    assert torch.equal(y, torch.full_like(y, -math.inf))
    assert torch.autograd.grad(y.sum(), x)[0].shape == shape


def test_a_scalar() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    y = metalcore.logsumexp(x, 0)
    assert y.shape == ()
    assert (y.item(), torch.autograd.grad(y, x)[0].item()) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((torch.ones(2, 3).long(), 0), "input must be float32"),
        ((torch.ones(2, 3), 2), "dim must be a dimension of the input, which has 2"),
        ((torch.ones(2, 3), (0, 0)), "dim must be without a dimension twice"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        metalcore.logsumexp(*arguments)

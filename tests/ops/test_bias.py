"""bias_gelu and bias_silu: corners and errors. The error rule is in test_ops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional

import metalcore
from metalcore.errors import ArgumentError
from tests.ops.contract import compiled_agrees, floats, gpu_launches_agree, opcheck

NOUNS = ("bias_gelu", "bias_silu")
pytestmark = pytest.mark.parametrize("noun", NOUNS)


def pair(noun: str) -> tuple[Any, Any]:
    """The op, and what torch has for it once the bias is added."""
    return getattr(metalcore, noun), getattr(functional, noun.removeprefix("bias_"))


def test_infinity_and_nan_as_torch(noun: str) -> None:
    call, activation = pair(noun)
    x = torch.tensor([[math.inf, -math.inf, math.nan, 1.0], [0.0, 1.0, 2.0, -3.0]])
    bias = torch.tensor([0.0, 0.0, 0.0, math.nan]).requires_grad_()
    y, expected = call(x, bias), activation(x + bias)
    torch.testing.assert_close(y, expected, equal_nan=True)
    found, slopes = (torch.autograd.grad(v.sum(), bias) for v in (y, expected))
    torch.testing.assert_close(found, slopes, equal_nan=True)


def test_no_rows(noun: str) -> None:
    """The gradient of the bias is a sum of nothing."""
    x, bias = torch.zeros(0, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
    dx, dbias = torch.autograd.grad(pair(noun)[0](x, bias).sum(), (x, bias))
    assert dx.shape == (0, 3)
    assert torch.equal(dbias, torch.zeros(3))


def test_gradient_is_the_same_in_every_run(noun: str) -> None:
    call, activation = pair(noun)
    x, bias = torch.randn(300, 65), torch.randn(65, requires_grad=True)
    first, second = (torch.autograd.grad(call(x, bias).sum(), bias)[0] for _ in range(2))
    assert torch.equal(first, second)
    exact = torch.autograd.grad(activation(x.double() + bias.double()).sum(), bias)[0]
    torch.testing.assert_close(first, exact)


def test_torch_knows_the_op(noun: str) -> None:
    x, bias = torch.randn(5, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    assert opcheck(noun, x, bias, *([False] if noun == "bias_gelu" else []))
    assert compiled_agrees(pair(noun)[0], x, bias)


@pytest.mark.sweep
def test_launches_of_a_gpu(noun: str) -> None:
    assert gpu_launches_agree(noun, *floats((70, 516), (516,)))


def test_bad_arguments(noun: str) -> None:
    call, _ = pair(noun)
    x, bias = torch.zeros(2, 3), torch.zeros(3)
    for wrong in (torch.zeros(2), torch.zeros(2, 3), torch.tensor(1.0)):
        with pytest.raises(ArgumentError, match=rf"{noun}: bias must be of shape \(3,\)"):
            call(x, wrong)
    with pytest.raises(ArgumentError, match=f"{noun}: bias must be of dtype float32, as the first input is"):
        call(x, bias.half())
    with pytest.raises(ArgumentError, match=f"{noun}: x must be an array of at least one dimension"):
        call(torch.tensor(1.0), bias)

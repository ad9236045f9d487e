"""gelu: special values, the tail, errors. The error rule is in test_ops."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

import metalcore
from metalcore.errors import ArgumentError
from tests.ops.contract import compiled_agrees, floats, gpu_launches_agree, opcheck


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_special_values_as_torch(approximate: str) -> None:
    x = torch.tensor([-math.inf, math.inf, math.nan, 0.0, -1e20, 1e20]).requires_grad_()
    y, expected = metalcore.gelu(x, approximate), functional.gelu(x, approximate=approximate)
    torch.testing.assert_close(y, expected, equal_nan=True)
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(slope, torch.tensor([math.nan, math.nan, math.nan, 0.5, 0.0, 1.0]), equal_nan=True)


def test_tail_keeps_its_digits() -> None:
    """1 + erf(x / sqrt 2) has none left at -6."""
    x = torch.linspace(-9, -0.01, 1000)
    exact = x.double() * torch.erfc(-x.double() / math.sqrt(2)) / 2
    assert ((metalcore.gelu(x).double() - exact) / exact).abs().max() < 3e-6
    assert ((functional.gelu(x).double() - exact) / exact).abs().max() > 1e-2


def test_more_elements_than_a_group_takes_and_none() -> None:
    x = torch.randn(3, 1031)[:, ::2]
    torch.testing.assert_close(metalcore.gelu(x), functional.gelu(x), rtol=1e-5, atol=1e-6)
    assert metalcore.gelu(torch.zeros(2, 0)).shape == (2, 0)
    assert metalcore.gelu(torch.tensor(1.0)).shape == ()


def test_torch_knows_the_op() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    assert opcheck("gelu", x, False)
    assert compiled_agrees(metalcore.gelu, x)
    torch.testing.assert_close(
        torch.func.vmap(metalcore.gelu, in_dims=1, out_dims=1)(x.detach()), metalcore.gelu(x.detach())
    )


@pytest.mark.sweep
def test_launches_of_a_gpu() -> None:
    assert gpu_launches_agree("gelu", *floats((3, 517)))
    assert gpu_launches_agree("gelu", *floats((3, 517)), "tanh")


def test_bad_arguments() -> None:
    wanted = "float32, float16, bfloat16 or float64"
    with pytest.raises(ArgumentError, match=f"gelu: input must be {wanted}, not of dtype int64"):
        metalcore.gelu(torch.arange(3))
    with pytest.raises(ArgumentError, match="gelu: approximate must be 'none' or 'tanh', not 'erf'"):
        metalcore.gelu(torch.zeros(3), "erf")

"""swiglu: corners and errors. The error rule is in test_ops."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

import metalcore
from metalcore.errors import ArgumentError
from tests.ops.contract import compiled_agrees, floats, gpu_launches_agree, opcheck


def test_infinity_and_nan_as_torch() -> None:
    gate = torch.tensor([math.inf, -math.inf, math.nan, 1.0, 0.0]).requires_grad_()
    up = torch.tensor([2.0, 2.0, 2.0, math.nan, math.inf]).requires_grad_()
    y, expected = metalcore.swiglu(gate, up), functional.silu(gate) * up
    torch.testing.assert_close(y, expected, equal_nan=True)
    found, slopes = (torch.autograd.grad(v.sum(), (gate, up)) for v in (y, expected))
    torch.testing.assert_close(found, slopes, equal_nan=True)


def test_halves_of_one_array() -> None:
    """gate and up are mostly two halves of the same product: views that are not contiguous."""
    both = torch.randn(4, 66, requires_grad=True)
    gate, up = both.chunk(2, dim=-1)
    found = torch.autograd.grad(metalcore.swiglu(gate, up).sum(), both)[0]
    torch.testing.assert_close(found, torch.autograd.grad((functional.silu(gate) * up).sum(), both)[0])


def test_torch_knows_the_op() -> None:
    gate, up = torch.randn(2, 5, 7, requires_grad=True).unbind()
    assert opcheck("swiglu", gate.detach().requires_grad_(), up.detach().requires_grad_())
    assert compiled_agrees(metalcore.swiglu, gate, up)


@pytest.mark.sweep
def test_launches_of_a_gpu() -> None:
    assert gpu_launches_agree("swiglu", *floats((3, 517), (3, 517)))


def test_autocast_takes_the_wider_type() -> None:
    gate, up = torch.randn(4), torch.randn(4).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        assert metalcore.swiglu(gate, up).dtype == torch.float32


def test_bad_arguments() -> None:
    x = torch.zeros(2, 3)
    with pytest.raises(ArgumentError, match=r"swiglu: up must be of shape \(2, 3\), not of shape \(3,\)"):
        metalcore.swiglu(x, torch.zeros(3))
    with pytest.raises(ArgumentError, match="swiglu: up must be of dtype float32, as the first input is, not of dtype"):
        metalcore.swiglu(x, x.half())
    with pytest.raises(ArgumentError, match="swiglu: gate must be float32"):
        metalcore.swiglu(x.int(), x)

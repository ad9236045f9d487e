"""softcap: corners and errors. The error rule is in test_ops."""

from __future__ import annotations

import math

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from tests.ops.contract import compiled_agrees, floats, gpu_launches_agree, opcheck


def test_infinity_and_nan_as_torch() -> None:
    x = torch.tensor([math.inf, -math.inf, math.nan, 0.0, 1e30, -40.0]).requires_grad_()
    y, expected = metalcore.softcap(x, 30.0), 30.0 * torch.tanh(x / 30.0)
    torch.testing.assert_close(y, expected, equal_nan=True)
    found, slopes = (torch.autograd.grad(v.sum(), x) for v in (y, expected))
    torch.testing.assert_close(found, slopes, equal_nan=True)


def test_torch_knows_the_op() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    assert opcheck("softcap", x, 2.0)
    assert compiled_agrees(lambda v: metalcore.softcap(v, 2.0), x)


def test_launches_of_a_gpu() -> None:
    assert gpu_launches_agree("softcap", *floats((3, 517)), 2.0)


@pytest.mark.parametrize("cap", [0, -1.0, math.nan, math.inf, "30", None])
def test_bad_cap(cap: object) -> None:
    with pytest.raises(ArgumentError, match="softcap: cap must be a number above 0"):
        metalcore.softcap(torch.zeros(3), cap)

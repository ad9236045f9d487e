"""silu: special values, in place, errors. The error rule is in test_ops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

import metalcore
from metalcore.errors import ArgumentError
from tests.ops.contract import compiled_agrees, floats, gpu_launches_agree, opcheck


def test_special_values_as_torch() -> None:
    x = torch.tensor([-math.inf, math.inf, math.nan, 0.0, -1e20, 1e20]).requires_grad_()
    y, expected = metalcore.silu(x), functional.silu(x)
    torch.testing.assert_close(y, expected, equal_nan=True)
    found, slopes = torch.autograd.grad(y.sum(), x)[0], torch.autograd.grad(expected.sum(), x)[0]
    torch.testing.assert_close(found, slopes, equal_nan=True)


def test_in_place_as_torch() -> None:
    leaf = torch.randn(5, requires_grad=True)
    gradients = []
    for run in (metalcore.silu, functional.silu):
        x = leaf * 1
        y = run(x, inplace=True)
        assert y is x
        gradients.append(torch.autograd.grad(y.square().sum(), leaf)[0])
    torch.testing.assert_close(*gradients)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        metalcore.silu(leaf, inplace=True)
    array = np.ones(3, np.float32)
    assert metalcore.silu(array, inplace=True) is array
    assert array[0] == pytest.approx(0.7310586)


def test_torch_knows_the_op() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    assert opcheck("silu", x)
    assert compiled_agrees(metalcore.silu, x)


@pytest.mark.sweep
def test_launches_of_a_gpu() -> None:
    assert gpu_launches_agree("silu", *floats((3, 517)))


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="silu: input must be float32"):
        metalcore.silu(torch.arange(3))

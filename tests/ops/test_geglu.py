"""geglu: corners and errors. The error rule is in test_ops."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

import metalcore
from metalcore.errors import ArgumentError
from tests.ops.contract import compiled_agrees, floats, gpu_launches_agree, opcheck


def test_infinity_and_nan_as_torch() -> None:
    gate = torch.tensor([math.inf, -math.inf, math.nan, 1.0, 0.0])
    up = torch.tensor([2.0, 2.0, 2.0, math.nan, math.inf])
    torch.testing.assert_close(metalcore.geglu(gate, up), functional.gelu(gate) * up, equal_nan=True)
    expected = functional.gelu(gate, approximate="tanh") * up
    torch.testing.assert_close(metalcore.geglu(gate, up, "tanh"), expected, equal_nan=True)


def test_torch_knows_the_op() -> None:
    gate, up = (torch.randn(5, 7, requires_grad=True) for _ in range(2))
    assert opcheck("geglu", gate, up, False)
    assert compiled_agrees(metalcore.geglu, gate, up)


def test_launches_of_a_gpu() -> None:
    assert gpu_launches_agree("geglu", *floats((3, 517), (3, 517)))


def test_bad_arguments() -> None:
    x = torch.zeros(2, 3)
    with pytest.raises(ArgumentError, match=r"geglu: up must be of shape \(2, 3\)"):
        metalcore.geglu(x, torch.zeros(2, 4))
    with pytest.raises(ArgumentError, match="geglu: up must be of dtype float32"):
        metalcore.geglu(x, x.half())
    with pytest.raises(ArgumentError, match="geglu: approximate must be 'none' or 'tanh'"):
        metalcore.geglu(x, x, "fast")

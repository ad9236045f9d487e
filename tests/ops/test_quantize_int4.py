"""The format of 4-bit weights, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError


def test_the_low_half_is_the_lower_column_and_the_last_group_is_shorter() -> None:
    weight = torch.tensor([[0.0, 15.0, 3.0, 4.0, -7.0, 8.0]])
    packed, scales, zeros = metalcore.quantize_int4(weight, group_size=4)
    assert packed.tolist() == [[0xF0, 0x43, 0xF0]]
    assert scales.tolist() == [[1.0, 1.0]] and zeros.tolist() == [[0.0, 7.0]]
    assert torch.equal(metalcore.dequantize_int4(packed, scales, zeros, 4), weight)


def test_symmetric() -> None:
    weight = torch.tensor([[-7.0, 7.0, 1.0, 0.0]], dtype=torch.bfloat16)
    packed, scales, zeros = metalcore.quantize_int4(weight, group_size=4, symmetric=True)
    assert packed.tolist() == [[0xF1, 0x89]]
    assert scales.tolist() == [[1.0]] and zeros.tolist() == [[8.0]] and scales.dtype == zeros.dtype == torch.bfloat16
    assert torch.equal(metalcore.dequantize_int4(packed, scales, zeros, 4), weight)


@pytest.mark.parametrize("symmetric", [False, True])
def test_half_a_step_at_most_is_lost(symmetric: bool) -> None:
    weight = torch.randn(7, 130, generator=torch.Generator().manual_seed(0))
    weight[3] = 0.0  # a scale of zero would divide by it
    packed, scales, zeros = metalcore.quantize_int4(weight, 64, symmetric)
    found = metalcore.dequantize_int4(packed, scales, zeros, 64)
    step = scales.repeat_interleave(64, 1)[:, :130]
    assert ((found - weight).abs() <= step * 0.5001).all()
    assert torch.equal(found[3], weight[3])


def test_numpy_gives_the_same_bytes() -> None:
    weight = np.random.default_rng(1).standard_normal((5, 66)).astype(np.float32)
    ours, theirs = metalcore.quantize_int4(weight, 32), metalcore.quantize_int4(torch.from_numpy(weight), 32)
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(ours, theirs, strict=True))


BAD: list[tuple[str, dict[str, Any]]] = [
    ("weight", {"weight": torch.zeros(3)}),
    ("weight", {"weight": torch.zeros(3, 5)}),
    ("weight", {"weight": torch.zeros(3, 4, dtype=torch.int32)}),
    ("group_size", {"group_size": 3}),
    ("group_size", {"group_size": 0}),
    ("group_size", {"group_size": 2.0}),
    ("symmetric", {"symmetric": "yes"}),
]


@pytest.mark.parametrize(("argument", "given"), BAD)
def test_quantize_refuses(argument: str, given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=f"quantize_int4: {argument} must be"):
        metalcore.quantize_int4(**{"weight": torch.zeros(3, 4), **given})


def test_no_gradient_is_cut_silently() -> None:
    with pytest.raises(RuntimeError, match="no gradient"):
        metalcore.quantize_int4(torch.zeros(3, 4, requires_grad=True))

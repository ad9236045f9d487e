"""embedding_bag: corners and errors. The error rule is in test_ops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

import metalcore
from metalcore.errors import ArgumentError, IndexRangeError

WEIGHT = torch.arange(40.0).reshape(10, 4).sin()
INPUT = torch.tensor([1, 9, 1, 4, 0])
OFFSETS = torch.tensor([0, 2, 2])  # the second bag is empty, the last one reaches the end


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_last_and_empty_bags(mode: str) -> None:
    found = metalcore.embedding_bag(INPUT, WEIGHT, OFFSETS, mode=mode)
    torch.testing.assert_close(found, functional.embedding_bag(INPUT, WEIGHT, OFFSETS, mode=mode))
    assert not found[1].any()


def test_bags_without_indices() -> None:
    none = torch.zeros(0, dtype=torch.int64)
    assert not metalcore.embedding_bag(none, WEIGHT, torch.tensor([0, 0])).any()
    assert metalcore.embedding_bag(none, WEIGHT, none).shape == (0, 4)
    weight = WEIGHT.clone().requires_grad_()
    metalcore.embedding_bag(none, weight, torch.tensor([0, 0])).sum().backward()
    assert not weight.grad.any()  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradient_over_the_frequency(mode: str) -> None:
    grads = []
    for divide in (True, False):
        weight = WEIGHT.clone().requires_grad_()
        out = metalcore.embedding_bag(INPUT, weight, OFFSETS, mode=mode, scale_grad_by_freq=divide)
        out.sum().backward()
        grads.append(weight.grad)
    counts = torch.bincount(INPUT, minlength=10).clamp(min=1)[:, None]
    torch.testing.assert_close(grads[0], grads[1] / counts)


def test_gradient_is_the_same_in_every_run() -> None:
    torch.manual_seed(0)
    index, weight = torch.randint(0, 10, (64, 31)), torch.randn(10, 4, requires_grad=True)
    cotangent = torch.randn(64, 4)
    found = [
        torch.autograd.grad(metalcore.embedding_bag(index, weight, mode="sum"), weight, cotangent)[0] for _ in range(3)
    ]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("value", [10, -1])
def test_index_out_of_range(value: int) -> None:
    index = torch.tensor([1, 2, value])
    with pytest.raises(IndexRangeError, match=rf"input has {value} at place 2, which is out of range: .* 0 to 9"):
        metalcore.embedding_bag(index, WEIGHT, torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([1, 2], "offsets must begin with 0, not 1"),
        ([0, 6], r"above the input's length 5, but offsets\[1\] is 6"),
        ([0, 3, 2], r"must not fall .* but offsets\[2\] is 2"),
    ],
)
def test_wrong_offsets(offsets: list[int], message: str) -> None:
    with pytest.raises(IndexRangeError, match=message):
        metalcore.embedding_bag(INPUT, WEIGHT, torch.tensor(offsets))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": torch.zeros(10)}, "weight must be of two dimensions"),
        ({"weight": torch.zeros(10, 4, dtype=torch.int64)}, "weight must be float32"),
        ({"input": INPUT.float()}, "input must be int64, int32 or uint32"),
        ({"input": INPUT[None]}, "offsets must be None"),
        ({"offsets": None}, "offsets must be of one dimension"),
        ({"offsets": torch.tensor(0)}, "offsets must be of one dimension"),
        ({"mode": "median"}, "mode must be sum, mean or max"),
        ({"max_norm": 1.0}, "not supported"),
        ({"sparse": True}, "not supported"),
        ({"mode": "max", "scale_grad_by_freq": True}, "scale_grad_by_freq must be False"),
        ({"per_sample_weights": torch.ones(5)}, "per_sample_weights must be None with mode mean"),
        ({"mode": "sum", "per_sample_weights": torch.ones(4)}, r"per_sample_weights must be of shape \(5,\)"),
        ({"mode": "sum", "per_sample_weights": torch.ones(5).half()}, "per_sample_weights must be of the weight's"),
        ({"padding_idx": 10}, "padding_idx must be in -10 to 9"),
        ({"offsets": torch.zeros(0, dtype=torch.int64), "include_last_offset": True}, "at least one element"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    arguments = {"input": INPUT, "weight": WEIGHT, "offsets": OFFSETS} | change
    with pytest.raises(ArgumentError, match=message):
        metalcore.embedding_bag(**arguments)

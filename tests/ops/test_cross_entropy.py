"""cross_entropy: what torch does in the corners, errors, memory. The error rule is in test_ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import metalcore
from metalcore.errors import ArgumentError, IndexRangeError


def both(x: torch.Tensor, *arguments: Any, **named: Any) -> tuple[torch.Tensor, ...]:
    """Loss and gradient of ours, then of torch's."""
    found = []
    for run in (metalcore.cross_entropy, functional.cross_entropy):
        leaf = x.detach().requires_grad_()
        loss = run(leaf, *arguments, **named)
        loss.sum().backward()
        found += [loss.detach(), leaf.grad]
    return tuple(found)


def assert_as_torch(x: torch.Tensor, *arguments: Any, **named: Any) -> None:
    loss, grad, expected, expected_grad = both(x, *arguments, **named)
    torch.testing.assert_close(loss, expected, equal_nan=True)
    torch.testing.assert_close(grad, expected_grad, equal_nan=True)


def test_all_rows_ignored() -> None:
    x = torch.randn(3, 40)
    target = torch.full((3,), -100)
    loss, grad, *_ = both(x, target)
    assert torch.isnan(loss)
    assert not grad.any()
    assert_as_torch(x, target, reduction="sum")


def test_no_rows() -> None:
    x, target = torch.randn(0, 40), torch.zeros(0, dtype=torch.int64)
    assert torch.isnan(metalcore.cross_entropy(x, target))
    assert metalcore.cross_entropy(x, target, reduction="sum") == 0
    assert metalcore.cross_entropy(x, target, reduction="none").shape == (0,)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_special_values_go_on(value: float) -> None:
    x = torch.randn(4, 40)
    x[0, 3] = value
    x[1, 7] = value  # the target itself
    x[2] = value
    assert_as_torch(x, torch.tensor([1, 7, 9, 0]), reduction="none")


def test_large_logits_keep_their_digits() -> None:
    x = 1e4 + torch.randn(4, 1000)
    target = torch.tensor([5, 6, 7, 8])
    exact = functional.cross_entropy(x.double(), target)
    assert abs(metalcore.cross_entropy(x, target).double() - exact) <= 2e-7 * exact


def test_older_arguments() -> None:
    x, target = torch.randn(4, 40), torch.tensor([1, 2, 3, 4])
    for named in ({"size_average": False}, {"reduce": False}, {"size_average": True}):
        with pytest.warns(UserWarning, match="size_average and reduce"):
            expected = functional.cross_entropy(x, target, **named)
        torch.testing.assert_close(metalcore.cross_entropy(x, target, **named), expected)


@pytest.mark.parametrize("value", [40, -1, 2**40])
def test_target_out_of_range_names_row_and_value(value: int) -> None:
    target = torch.tensor([1, 2, value, 4])
    with pytest.raises(IndexRangeError, match=rf"target {value} of row 2 is out of range: there are 40 classes"):
        metalcore.cross_entropy(torch.randn(4, 40), target)
    with pytest.raises(IndexError):  # as torch
        metalcore.cross_entropy(np.zeros((4, 40), np.float32), target.numpy())
    assert_as_torch(torch.randn(4, 40), target, ignore_index=value)


@pytest.mark.parametrize(
    "kind", ["uint8", "int32", *(pytest.param(k, marks=pytest.mark.sweep) for k in ("int8", "int16", "uint32"))]
)
def test_classes_of_any_integer_type(kind: str) -> None:
    x, target = torch.randn(4, 40), torch.tensor([1, 39, 3, 0])
    given = target.to(getattr(torch, kind))
    for named in ({}, {"ignore_index": 3}):
        loss, grad = both(x, target, **named)[:2]
        leaf = x.clone().requires_grad_()
        found = metalcore.cross_entropy(leaf, given, **named)
        assert torch.equal(found, loss)
        assert torch.equal(torch.autograd.grad(found, leaf)[0], grad)
    given[1] = 40
    with pytest.raises(IndexRangeError, match="target 40 of row 1 is out of range"):
        metalcore.cross_entropy(x, given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input": torch.zeros(4, 40, dtype=torch.int64)}, "input must be float32"),
        ({"input": torch.tensor(1.0)}, "input must be of shape"),
        ({"target": torch.zeros(5, dtype=torch.int64)}, r"target must be of shape \(4,\)"),
        ({"target": torch.zeros(4, dtype=torch.bool)}, "target must be classes in an integer type"),
        ({"target": torch.zeros(4, 40, dtype=torch.float16)}, "target must be classes in an integer type"),
        ({"target": torch.zeros(4, 41)}, r"target must be of shape \(4, 40\)"),
        ({"weight": torch.tensor(1.0)}, r"weight must be of shape \(40,\)"),
        ({"weight": torch.zeros(40, dtype=torch.float16)}, "weight must be of the input's dtype"),
        ({"weight": torch.zeros(40, requires_grad=True)}, "weight must be without requires_grad"),
        ({"reduction": "average"}, "reduction must be one of none, mean, sum"),
        ({"label_smoothing": -0.1}, "label_smoothing must be between 0 and 1"),
        ({"softcap": 0.0}, "softcap must be None or a number above 0"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    arguments = {"input": torch.zeros(4, 40), "target": torch.zeros(4, dtype=torch.int64)} | change
    with pytest.raises(ArgumentError, match=f"cross_entropy: {message}"):
        metalcore.cross_entropy(**arguments)


def test_gradient_needs_no_more_memory_than_itself() -> None:
    """Forward keeps two numbers a row; backward allocates the gradient."""
    x = torch.randn(8, 4001, requires_grad=True)
    loss = metalcore.cross_entropy(x, torch.arange(8))
    saved = loss.grad_fn.saved_tensors  # type: ignore[union-attr]
    kept = [t for t in saved if t is not None and t.data_ptr() != x.data_ptr()]
    assert sum(t.numel() for t in kept) <= 8 * 3 + 1

"""kl_div: corners and errors. The error rule is in test_ops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional

import metalcore
from metalcore.errors import ArgumentError


def test_zeros_and_special_values_as_torch() -> None:
    x = torch.tensor([-1.0, 0.0, -math.inf, math.nan, -2.0, -math.inf])
    target = torch.tensor([0.0, 0.5, 0.25, 0.5, math.nan, 0.0])
    expected = functional.kl_div(x, target, reduction="none")
    torch.testing.assert_close(metalcore.kl_div(x, target, reduction="none"), expected, equal_nan=True)
    assert torch.isnan(metalcore.kl_div(x, target, reduction="sum"))


def test_infinite_sum() -> None:
    x, target = torch.full((40,), -1.0), torch.full((40,), 0.5)
    x[7] = -math.inf
    assert metalcore.kl_div(x, target, reduction="sum") == math.inf


def test_no_elements() -> None:
    x = torch.zeros(0, 3)
    assert torch.isnan(metalcore.kl_div(x, x))
    assert metalcore.kl_div(x, x, reduction="sum") == 0
    assert metalcore.kl_div(x, x, reduction="none").shape == (0, 3)


def test_sum_over_blocks_keeps_its_digits() -> None:
    """A plain sum in float32 would be off in the fourth digit."""
    x = torch.full((200_000,), -1.0)
    target = torch.full((200_000,), 0.1)
    exact = functional.kl_div(x.double(), target.double(), reduction="sum")
    assert abs(metalcore.kl_div(x, target, reduction="sum").double() - exact) <= 2e-7 * abs(exact)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input": torch.zeros(3, dtype=torch.int64)}, "input must be float32"),
        ({"target": torch.zeros(4)}, r"target must be of shape \(3,\)"),
        ({"target": torch.zeros(3).half()}, "target must be of the input's dtype"),
        ({"reduction": "average"}, "reduction must be one of none, mean, batchmean, sum"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    arguments = {"input": torch.zeros(3), "target": torch.zeros(3)} | change
    with pytest.raises(ArgumentError, match=f"kl_div: {message}"):
        metalcore.kl_div(**arguments)

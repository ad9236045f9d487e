"""causal_conv1d: decoding, corners, errors. The error rule is in test_ops."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.health.cases.causal_conv1d import reference
from tests.ops.contract import floats, gpu_launches_agree, opcheck


def test_token_by_token_is_the_whole_sequence() -> None:
    x, weight, bias = torch.randn(2, 5, 40), torch.randn(5, 4), torch.randn(5)
    whole = metalcore.causal_conv1d(x, weight, bias, None, "silu")
    torch.testing.assert_close(whole, reference(x, weight, bias, None, "silu"))
    state, parts, begin = torch.zeros(2, 5, 3), [], 0
    for length in (1, 1, 2, 30, 1, 5):  # short and long launches
        y, state = metalcore.causal_conv1d(x[..., begin : begin + length], weight, bias, state, "silu")
        parts.append(y)
        begin += length
    torch.testing.assert_close(torch.cat(parts, dim=-1), whole)
    assert torch.equal(state, x[..., -3:])


def test_no_tokens_hand_the_state_on() -> None:
    state = torch.randn(1, 5, 3)
    y, after = metalcore.causal_conv1d(torch.zeros(1, 5, 0), torch.randn(5, 4), None, state)
    assert y.shape == (1, 5, 0)
    assert torch.equal(after, state)


def test_infinity_reaches_width_tokens() -> None:
    x = torch.zeros(1, 1, 9)
    x[..., 3] = torch.inf
    y = metalcore.causal_conv1d(x, torch.ones(1, 4))
    assert torch.isinf(y[0, 0]).tolist() == [False] * 3 + [True] * 4 + [False] * 2


def test_sums_of_one_channel_keep_their_digits() -> None:
    """Over the tokens they cancel, and no larger sum of another channel hides what is lost."""
    random = torch.Generator().manual_seed(0)
    for _ in range(20):
        x, weight, bias, g = (torch.randn(s, generator=random) for s in ((1, 1, 300), (1, 1), (1,), (1, 1, 300)))
        given = [t.requires_grad_() for t in (weight, bias)]
        found = torch.autograd.grad(metalcore.causal_conv1d(x, *given, None, "silu"), given, g)
        exact = [t.detach().double().requires_grad_() for t in given]
        truths = torch.autograd.grad(reference(x.double(), *exact, None, "silu"), exact, g.double())
        for value, truth in zip(found, truths, strict=True):
            assert abs(value.double() - truth) <= 2**-23 * abs(truth)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan, 100.0, -100.0])
def test_slopes_far_out_are_those_of_torch(value: float) -> None:
    x, weight = torch.tensor([[[value, 1.0]]], requires_grad=True), torch.ones(1, 1)
    (found,) = torch.autograd.grad(metalcore.causal_conv1d(x, weight, None, None, "silu").sum(), x)
    (expected,) = torch.autograd.grad(torch.nn.functional.silu(x).sum(), x)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_torch_knows_the_op() -> None:
    shapes = ((2, 3, 9), (3, 4), (3,), (2, 3, 3))
    inputs = [torch.randn(s, requires_grad=True) for s in shapes]
    assert opcheck("causal_conv1d", *inputs, True)
    run = torch.compile(metalcore.causal_conv1d, fullgraph=True, backend="aot_eager")
    assert torch.equal(run(*inputs)[0], metalcore.causal_conv1d(*inputs)[0])


@pytest.mark.sweep
def test_launches_of_a_gpu() -> None:
    assert gpu_launches_agree("causal_conv1d", *floats((2, 3, 300), (3, 4), (3,), (2, 3, 3)), "silu")


@pytest.mark.sweep
def test_sanitizer_finds_nothing_in_a_long_sequence() -> None:
    x, weight = torch.randn(1, 3, 70, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    with metalcore.mode("sanitize") as report:
        metalcore.causal_conv1d(x, weight, None, torch.randn(1, 3, 3), "silu")[0].sum().backward()
    assert list(report.findings) == []
    assert x.grad is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(3, 9)}, r"x must be of shape \(batch, channels, length\)"),
        ({"x": torch.zeros(2, 3, 9, dtype=torch.int32)}, "x must be float32"),
        ({"weight": torch.zeros(3, 1, 4)}, r"weight must be of shape \(3, width\)"),
        ({"weight": torch.zeros(3, 4).half()}, "weight must be of dtype float32"),
        ({"bias": torch.zeros(4)}, r"bias must be of shape \(3,\)"),
        ({"state": torch.zeros(2, 3, 4)}, r"state must be of shape \(2, 3, 3\)"),
        ({"activation": "relu"}, "activation must be None, 'silu' or 'swish', not 'relu'"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    arguments = {"x": torch.zeros(2, 3, 9), "weight": torch.zeros(3, 4)} | change
    with pytest.raises(ArgumentError, match=f"causal_conv1d: {message}"):
        metalcore.causal_conv1d(**arguments)

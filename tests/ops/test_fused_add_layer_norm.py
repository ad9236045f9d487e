"""fused_add_layer_norm beside the error rule: both results and their gradients, bad input, torch's own checks."""

from __future__ import annotations

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from tests.ops import contract


def test_opcheck() -> None:
    inputs = [torch.randn(s, requires_grad=True) for s in ((3, 5), (3, 5), (5,), (5,))]
    assert contract.opcheck("fused_add_layer_norm", *inputs, 1e-5)


def test_compiles_to_one_graph() -> None:
    inputs = torch.randn(6, 8), torch.randn(6, 8), torch.randn(8), torch.randn(8)
    assert contract.compiled_agrees(metalcore.fused_add_layer_norm, *inputs)


@pytest.mark.sweep
def test_launches_of_a_gpu() -> None:
    inputs = contract.floats((9, 512), (9, 512), (512,), (512,))
    assert contract.gpu_launches_agree("fused_add_layer_norm", *inputs)


def test_the_sum_is_rounded_and_the_norm_is_of_that() -> None:
    x, residual = torch.full((2, 8), 256.0).bfloat16(), torch.arange(16.0).reshape(2, 8).bfloat16()
    w, b = torch.randn(8).bfloat16(), torch.randn(8).bfloat16()
    y, h = metalcore.fused_add_layer_norm(x, residual, w, b)
    assert torch.equal(h, x + residual)
    assert torch.equal(y, metalcore.layer_norm(h, (8,), w, b, 1e-5))


def test_both_results_have_gradients() -> None:
    x, residual, w, b = (torch.randn(s, dtype=torch.float64) for s in ((2, 4), (2, 4), (4,), (4,)))
    given = [t.float().requires_grad_() for t in (x, residual, w, b)]
    exact = [t.float().double().requires_grad_() for t in (x, residual, w, b)]
    gy, gh = torch.randn(2, 4), torch.randn(2, 4)
    found = torch.autograd.grad(metalcore.fused_add_layer_norm(*given), given, (gy, gh))
    h = exact[0] + exact[1]
    y = torch.nn.functional.layer_norm(h, (4,), *exact[2:], eps=1e-5)
    truths = torch.autograd.grad((y, h), exact, (gy.double(), gh.double()))
    assert all(torch.allclose(a.double(), b, atol=1e-5) for a, b in zip(found, truths, strict=True))


def test_one_result_alone_has_its_gradient() -> None:
    x = torch.randn(2, 4, requires_grad=True)
    _, h = metalcore.fused_add_layer_norm(x, torch.randn(2, 4), torch.ones(4), None)
    assert torch.equal(torch.autograd.grad(h.sum(), x)[0], torch.ones(2, 4))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((torch.ones(2, 3).int(), torch.ones(2, 3), torch.ones(3), torch.ones(3)), "x must be float32"),
        ((torch.ones(2, 3), torch.ones(1, 3), torch.ones(3), torch.ones(3)), r"residual must be of shape \(2, 3\)"),
        (
            (torch.ones(2, 3), torch.ones(2, 3).half(), torch.ones(3), torch.ones(3)),
            "residual must be of the dtype of x",
        ),
        ((torch.ones(2, 3), torch.ones(2, 3), torch.tensor(1.0), torch.ones(3)), r"weight must be of shape \(3,\)"),
        ((torch.tensor(1.0), torch.tensor(1.0), torch.ones(3), torch.ones(3)), "x must be of one dimension or more"),
        (
            (torch.ones(2, 3), torch.ones(2, 3), torch.ones(3), torch.ones(3), -1.0),
            "eps must be a number that is not negative",
        ),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        metalcore.fused_add_layer_norm(*arguments)

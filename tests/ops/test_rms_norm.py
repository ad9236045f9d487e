"""rms_norm beside the error rule: bad input, mixed precision, what is not finite, and torch's own checks."""

from __future__ import annotations

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from tests.ops import contract


def test_opcheck() -> None:
    x, w = torch.randn(3, 5, requires_grad=True), torch.randn(5, requires_grad=True)
    assert contract.opcheck("rms_norm", x, w, 1, 1e-6)


def test_compiles_to_one_graph() -> None:
    assert contract.compiled_agrees(lambda x, w: metalcore.rms_norm(x, (8,), w), torch.randn(6, 8), torch.randn(8))


def test_launches_of_a_gpu() -> None:
    x, w = contract.floats((9, 512), (512,))
    assert contract.gpu_launches_agree("rms_norm", x, (512,), w, 1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((torch.ones(2, 3, dtype=torch.int32), (3,)), "bfloat16 or float64, not of dtype int32"),
        ((torch.ones(2, 3), (2,)), "normalized_shape must be the last dimensions"),
        ((torch.ones(2, 3), ()), "normalized_shape must be the last dimensions"),
        ((torch.ones(2, 3), (3,), torch.tensor(1.0)), r"weight must be of shape \(3,\), not of shape \(\)"),
        ((torch.ones(2, 3), (3,), torch.ones(2)), r"weight must be of shape \(3,\)"),
        ((torch.ones(2, 3), (3,), torch.ones(3).long()), "weight must be float32"),
        ((torch.ones(2, 3), (3,), torch.ones(3).double()), "weight must be of a dtype that goes with"),
        ((torch.ones(2, 3), (3,), None, -1e-6), "eps must be a number that is not negative"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        metalcore.rms_norm(*arguments)


def test_a_float32_weight_beside_bfloat16() -> None:
    x = torch.randn(9, 33).bfloat16().requires_grad_()
    w = torch.randn(33).requires_grad_()
    y = metalcore.rms_norm(x, (33,), w, 1e-6)
    dx, dw = torch.autograd.grad(y, (x, w), torch.ones_like(y))
    assert (y.dtype, dx.dtype, dw.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    wide = x.detach().double().requires_grad_()
    same = w.detach().double().requires_grad_()
    truth = torch.nn.functional.rms_norm(wide, (33,), same, 1e-6)
    truths = torch.autograd.grad(truth, (wide, same), torch.ones_like(truth))
    assert torch.allclose(y.double(), truth, rtol=2**-8)
    assert torch.allclose(dx.double(), truths[0], rtol=2**-7, atol=2**-7)
    assert torch.allclose(dw.double(), truths[1], rtol=1e-5, atol=1e-5)


def test_what_is_not_finite_stays_in_its_row() -> None:
    x = torch.ones(3, 4)
    x[0, 1], x[1, 2] = float("nan"), float("inf")
    assert torch.equal(metalcore.rms_norm(x, (4,)).isnan(), torch.nn.functional.rms_norm(x, (4,)).isnan())


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_no_elements(shape: tuple[int, int]) -> None:
    x, w = torch.ones(shape, requires_grad=True), torch.ones(shape[1], requires_grad=True)
    y = metalcore.rms_norm(x, shape[1:], w)
    dx, dw = torch.autograd.grad(y.sum(), (x, w))
    assert y.shape == dx.shape == shape
    assert torch.equal(dw, torch.zeros(shape[1]))


def test_a_gradient_that_is_not_wanted_is_not_computed() -> None:
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8)
    found = torch.ops.metalcore.rms_norm_backward(torch.ones(4, 8), x.detach(), w, torch.ones(4), 1, [True, False])
    assert found[0].shape == (4, 8)
    assert found[1].numel() == 0

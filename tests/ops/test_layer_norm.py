"""layer_norm beside the error rule: bad input, mixed precision, rows whose values nearly agree, torch's own checks."""

from __future__ import annotations

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from tests.ops import contract


def test_opcheck() -> None:
    x, w, b = (torch.randn(s, requires_grad=True) for s in ((3, 5), (5,), (5,)))
    assert contract.opcheck("layer_norm", x, w, b, 1, 1e-5)


def test_compiles_to_one_graph() -> None:
    inputs = torch.randn(6, 8), torch.randn(8), torch.randn(8)
    assert contract.compiled_agrees(lambda x, w, b: metalcore.layer_norm(x, (8,), w, b), *inputs)


@pytest.mark.sweep
def test_launches_of_a_gpu() -> None:
    x, w, b = contract.floats((9, 512), (512,), (512,))
    assert contract.gpu_launches_agree("layer_norm", x, (512,), w, b)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((torch.ones(2, 3).bool(), (3,)), "input must be float32"),
        ((torch.ones(2, 3), (4,)), "normalized_shape must be the last dimensions"),
        ((torch.ones(2, 3), (3,), torch.tensor(1.0)), r"weight must be of shape \(3,\)"),
        ((torch.ones(2, 3), (3,), torch.ones(3), torch.ones(1)), r"bias must be of shape \(3,\)"),
        ((torch.ones(2, 3), (3,), torch.ones(3), torch.ones(3).half()), "bias must be of the dtype of weight"),
        ((torch.ones(2, 3), (3,), None, None, -1.0), "eps must be a number that is not negative"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        metalcore.layer_norm(*arguments)


def test_a_large_mean_does_not_spoil_the_spread() -> None:
    x = torch.tensor([[4096.0, 4097.0, 4098.0, 4097.5]])
    truth = torch.nn.functional.layer_norm(x.double(), (4,))
    assert torch.allclose(metalcore.layer_norm(x, (4,)).double(), truth, rtol=1e-6)


def test_float32_parameters_beside_float16() -> None:
    x, w, b = torch.randn(5, 32).half(), torch.randn(32), torch.randn(32)
    y = metalcore.layer_norm(x, (32,), w, b)
    assert y.dtype == torch.float16
    truth = torch.nn.functional.layer_norm(x.double(), (32,), w.double(), b.double())
    assert torch.allclose(y.double(), truth, rtol=2**-10, atol=2**-10)


def test_several_dimensions_and_a_bias_alone() -> None:
    x, b = torch.randn(2, 3, 4), torch.randn(3, 4)
    found = metalcore.layer_norm(x, (3, 4), None, b)
    assert torch.allclose(found, torch.nn.functional.layer_norm(x, (3, 4), None, b), atol=1e-6)


def test_what_is_not_finite_stays_in_its_row() -> None:
    x = torch.ones(3, 4)
    x[0, 1], x[1, 2] = float("nan"), float("inf")
    assert torch.equal(metalcore.layer_norm(x, (4,)).isnan(), torch.nn.functional.layer_norm(x, (4,)).isnan())


def test_no_rows() -> None:
    x, w = torch.ones(0, 4, requires_grad=True), torch.ones(4, requires_grad=True)
    dx, dw = torch.autograd.grad(metalcore.layer_norm(x, (4,), w).sum(), (x, w))
    assert dx.shape == (0, 4)
    assert torch.equal(dw, torch.zeros(4))


@pytest.mark.sweep
def test_gradients_of_float64_beside_parameters_without_one() -> None:
    """Kernels of float64 write their shares in float64, also the empty ones."""
    x, w, b = (torch.randn(s, dtype=torch.float64) for s in ((3, 8), (8,), (8,)))
    for weight, bias in ((None, None), (w, None), (None, b), (w, b)):
        asked = [a.requires_grad_() for a in (x, weight) if a is not None]
        for noun, arguments in (("layer_norm", ((8,), weight, bias)), ("rms_norm", ((8,), weight))):
            found = torch.autograd.grad(getattr(metalcore, noun)(x, *arguments).square().sum(), asked)
            theirs = getattr(torch.nn.functional, noun)(x, *arguments)
            torch.testing.assert_close(found, torch.autograd.grad(theirs.square().sum(), asked))

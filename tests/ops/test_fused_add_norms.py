"""fused_add_rms_norm and fused_add_layer_norm beside the error rule: both results and their gradients, bad input."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from tests.ops import contract


class Noun(NamedTuple):
    norm: str  # the norm of the sum, in metalcore and in torch
    parameters: int  # weight, or weight and bias
    eps: float

    def __str__(self) -> str:
        return f"fused_add_{self.norm}"

    def __call__(self, *arguments: Any) -> Any:
        return getattr(metalcore, str(self))(*arguments)

    def of(self, rows: int, width: int) -> list[tuple[int, ...]]:
        """Shapes of the arguments."""
        return [(rows, width)] * 2 + [(width,)] * self.parameters


@pytest.fixture(params=[Noun("rms_norm", 1, 1e-6), Noun("layer_norm", 2, 1e-5)], ids=str)
def noun(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_opcheck(noun: Noun) -> None:
    assert contract.opcheck(str(noun), *(torch.randn(s, requires_grad=True) for s in noun.of(3, 5)), noun.eps)


def test_compiles_to_one_graph(noun: Noun) -> None:
    assert contract.compiled_agrees(getattr(metalcore, str(noun)), *map(torch.randn, noun.of(6, 8)))


@pytest.mark.sweep
def test_launches_of_a_gpu(noun: Noun) -> None:
    assert contract.gpu_launches_agree(str(noun), *contract.floats(*noun.of(9, 512)))


def test_the_sum_is_rounded_and_the_norm_is_of_that(noun: Noun) -> None:
    x, residual = torch.full((2, 8), 256.0).bfloat16(), torch.arange(16.0).reshape(2, 8).bfloat16()
    parameters = [torch.randn(8).bfloat16() for _ in range(noun.parameters)]
    y, h = noun(x, residual, *parameters)
    assert torch.equal(h, x + residual)
    assert torch.equal(y, getattr(metalcore, noun.norm)(h, (8,), *parameters, noun.eps))


def test_both_results_have_gradients(noun: Noun) -> None:
    given = [torch.randn(s, requires_grad=True) for s in noun.of(2, 4)]
    exact = [t.detach().double().requires_grad_() for t in given]
    gy, gh = torch.randn(2, 4), torch.randn(2, 4)
    found = torch.autograd.grad(noun(*given), given, (gy, gh))
    h = exact[0] + exact[1]
    y = getattr(torch.nn.functional, noun.norm)(h, (4,), *exact[2:], eps=noun.eps)
    truths = torch.autograd.grad((y, h), exact, (gy.double(), gh.double()))
    assert all(torch.allclose(a.double(), b, atol=1e-5) for a, b in zip(found, truths, strict=True))


def test_one_result_alone_has_its_gradient(noun: Noun) -> None:
    x = torch.randn(2, 4, requires_grad=True)
    _, h = noun(x, torch.randn(2, 4), torch.ones(4), *[None] * (noun.parameters - 1))
    assert torch.equal(torch.autograd.grad(h.sum(), x)[0], torch.ones(2, 4))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({0: torch.ones(2, 3).int()}, "x must be float32"),
        ({1: torch.ones(1, 3)}, r"residual must be of shape \(2, 3\)"),
        ({1: torch.ones(2, 3).half()}, "residual must be of the dtype of x"),
        ({2: torch.tensor(1.0)}, r"weight must be of shape \(3,\)"),
        ({0: torch.tensor(1.0), 1: torch.tensor(1.0)}, "x must be of one dimension or more"),
        ({-1: -1.0}, "eps must be a number that is not negative"),
    ],
)
def test_bad_arguments_are_named(noun: Noun, wrong: dict[int, Any], words: str) -> None:
    arguments = [*map(torch.ones, noun.of(2, 3)), noun.eps]
    for place, value in wrong.items():
        arguments[place] = value
    with pytest.raises(ArgumentError, match=f"{noun}: {words}"):
        noun(*arguments)

"""softmax and log_softmax beside the error rule: hidden rows, masks, causal over any dimension, bad input."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from tests.ops import contract

F = torch.nn.functional


class Noun(NamedTuple):
    name: str
    of_hidden: float  # what a row that is hidden throughout gives

    def __str__(self) -> str:
        return self.name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return getattr(metalcore, self.name)(*arguments, **named)

    def torch(self, *arguments: Any, **named: Any) -> Any:
        return getattr(F, self.name)(*arguments, **named)


NOUNS = Noun("softmax", 0.0), Noun("log_softmax", -math.inf)


@pytest.fixture(params=NOUNS, ids=str)
def noun(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_opcheck(noun: Noun) -> None:
    x, mask = torch.randn(3, 5, requires_grad=True), torch.randn(3, 5)
    assert contract.opcheck(noun.name, x, mask, -1, False, "float32", "float32")


def test_compiles_to_one_graph(noun: Noun) -> None:
    inputs, function = (torch.randn(6, 8), torch.randn(8)), getattr(metalcore, noun.name)
    assert contract.compiled_agrees(lambda x, m: function(x, -1, mask=m), *inputs)


@pytest.mark.parametrize("noun", [NOUNS[0], pytest.param(NOUNS[1], marks=pytest.mark.sweep)], ids=str)
def test_launches_of_a_gpu(noun: Noun) -> None:
    assert contract.gpu_launches_agree(noun.name, *contract.floats((3, 516)), -1)


def test_rows_hidden_throughout_are_defined(noun: Noun) -> None:
    mask = torch.tensor([[0.0, -math.inf], [-math.inf, -math.inf]])
    for dim, rows in ((-1, mask), (0, mask.T.contiguous())):
        x = torch.randn(2, 2, requires_grad=True)
        y = noun(x, dim, mask=rows)
        assert torch.equal(y.select(1 - dim % 2, 1), torch.full((2,), noun.of_hidden))
        assert torch.autograd.grad(y[rows == 0].sum(), x)[0].isfinite().all()


def test_queries_that_see_no_key(noun: Noun) -> None:
    x = torch.randn(3, 2, requires_grad=True)
    y = noun(x, -1, causal=True)
    assert torch.equal(y[0], torch.full((2,), noun.of_hidden))
    assert torch.allclose(y[2], noun.torch(x[2], -1))
    dx = torch.autograd.grad(y[1:, 0].sum(), x)[0]
    assert dx.isfinite().all()
    assert torch.equal(dx[0], torch.zeros(2))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_causal_over_any_dimension(noun: Noun, dim: int) -> None:
    x = torch.randn(3, 4, 5)
    hidden = torch.ones(4, 5, dtype=torch.bool).triu(2)
    truth = noun.torch(x.masked_fill(hidden, -math.inf), dim)
    truth = truth.masked_fill(truth.isnan(), noun.of_hidden)
    assert torch.allclose(noun(x, dim, causal=True), truth, atol=1e-6)


@pytest.mark.parametrize("shape", [(7,), (2, 1, 1, 7), (1, 3, 1, 7), (2, 1, 5, 1), (3, 1, 7), (2, 3, 5, 7)])
@pytest.mark.parametrize("dim", [-1, 1])
def test_masks_broadcast(noun: Noun, shape: tuple[int, ...], dim: int) -> None:
    x, mask = torch.randn(2, 3, 5, 7), torch.randn(shape)
    assert torch.allclose(noun(x, dim, mask=mask), noun.torch(x + mask, dim), atol=1e-6)


def test_a_mask_over_many_groups_of_dimensions(noun: Noun) -> None:
    x, mask = torch.randn(2, 2, 2, 2, 2, 2, 3), torch.randn(2, 1, 2, 1, 2, 1, 3)
    assert torch.allclose(noun(x, -1, mask=mask), noun.torch(x + mask, -1), atol=1e-6)


def test_a_mask_learns(noun: Noun) -> None:
    x, mask, g = torch.randn(3, 4, 5), torch.randn(4, 5, requires_grad=True), torch.randn(3, 4, 5)
    (found,) = torch.autograd.grad(noun(x, -1, mask=mask), mask, g)
    (truth,) = torch.autograd.grad(noun.torch(x + mask, -1), mask, g)
    assert torch.allclose(found, truth, atol=1e-5)


def test_what_is_not_finite_comes_as_in_torch(noun: Noun) -> None:
    rows = [[-math.inf] * 3, [-math.inf, 1.0, 2.0], [math.inf, 1.0, 2.0], [math.nan, 1.0, 2.0], [math.nan] * 3]
    x = torch.tensor(rows)
    for dim, given in ((-1, x), (0, x.T.contiguous())):
        assert torch.allclose(noun(given, dim), noun.torch(given, dim), equal_nan=True)


def test_a_hidden_row_with_nan_is_nan(noun: Noun) -> None:
    x = torch.tensor([[math.nan, 1.0]])
    assert noun(x, -1, mask=torch.full((1, 2), -math.inf)).isnan().any()


def test_a_row_longer_than_a_block(noun: Noun) -> None:
    x = torch.randn(2, 9001).cumsum(-1)  # the largest value moves on
    truth = noun.torch(x.double(), -1)
    assert torch.allclose(noun(x, -1).double(), truth, atol=1e-6 * max(1.0, float(truth.abs().max())))


def test_dtype_is_that_of_the_result(noun: Noun) -> None:
    x = torch.randn(3, 33).bfloat16().requires_grad_()
    y = noun(x, -1, dtype=torch.float32)
    assert y.dtype == torch.float32
    assert torch.allclose(y, noun.torch(x, -1, dtype=torch.float32), atol=1e-6)
    assert torch.autograd.grad(y.square().sum(), x)[0].dtype == torch.bfloat16


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), ()])
def test_no_dimension_or_no_elements(noun: Noun, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape, requires_grad=True)
    y = noun(x, 0)
    assert torch.equal(y, noun.torch(x, 0))
    assert torch.autograd.grad(y.sum(), x)[0].shape == shape


def test_without_a_dimension_torch_warns_and_so_do_we(noun: Noun) -> None:
    x = torch.randn(2, 3)
    with pytest.warns(UserWarning, match="Implicit dimension"):
        assert torch.allclose(noun(x), noun.torch(x, 1), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "named", "words"),
    [
        ((torch.ones(2, 3).long(), 0), {}, "input must be float32"),
        ((torch.ones(2, 3), 2), {}, "dim must be a dimension of the input, which has 2"),
        ((torch.ones(2, 3), "last"), {}, "dim must be a dimension"),
        ((torch.ones(2, 3), 0), {"dtype": torch.int32}, "dtype must be float32"),
        ((torch.ones(2, 3), 0), {"mask": torch.ones(2)}, "mask must be of a shape that broadcasts"),
        ((torch.ones(2, 3), 0), {"mask": torch.ones(2, 3).bool()}, "mask must be float32"),
        ((torch.ones(2, 3), 0), {"mask": torch.ones(1, 2, 3)}, "mask must be of a shape that broadcasts"),
        ((torch.ones(3), 0), {"causal": True}, "input must be of two dimensions or more"),
    ],
)
def test_bad_arguments_are_named(
    noun: Noun, arguments: tuple[object, ...], named: dict[str, object], words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        noun(*arguments, **named)

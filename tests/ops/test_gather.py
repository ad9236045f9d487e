"""gather, index_select, scatter_add: corners and errors. The error rule is in test_ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError, IndexRangeError

X = torch.arange(12.0).reshape(3, 4)


def test_numbers_without_dimensions() -> None:
    one, zero = torch.tensor(5.0), torch.tensor(0)
    assert metalcore.gather(one, 0, zero) == 5.0
    assert metalcore.index_select(one, 0, zero) == 5.0
    assert metalcore.scatter_add(one, 0, zero, one) == 10.0
    assert metalcore.index_select(X, 1, torch.tensor(2)).shape == (3, 1)


def test_index_smaller_than_input_and_src() -> None:
    index, src = torch.tensor([[2, 1], [0, 0]]), torch.ones(3, 3)
    torch.testing.assert_close(metalcore.gather(X, 0, index), torch.gather(X, 0, index))
    torch.testing.assert_close(metalcore.scatter_add(X, 0, index, src), torch.scatter_add(X, 0, index, src))
    x = X.clone().requires_grad_()
    metalcore.gather(x, 0, index).sum().backward()
    assert x.grad is not None
    assert x.grad.sum() == 4
    assert not x.grad[:, 2:].any()


def test_halves_are_added_in_float32() -> None:
    """In float16 the sum would stand still at 2048."""
    ones = torch.ones(4096, dtype=torch.float16)
    index = torch.zeros(4096, dtype=torch.int64)
    assert metalcore.scatter_add(torch.zeros(2, dtype=torch.float16), 0, index, ones)[0] == 4096
    x = torch.zeros(2, dtype=torch.float16, requires_grad=True)
    metalcore.gather(x, 0, index).sum().backward()
    assert x.grad is not None
    assert x.grad[0] == 4096


def test_result_is_not_the_input() -> None:
    none = torch.zeros(0, 4, dtype=torch.int64)
    found = metalcore.scatter_add(X, 0, none, torch.zeros(0, 4))
    assert torch.equal(found, X)
    assert found.data_ptr() != X.data_ptr()


def test_numpy() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    index = np.array([[2, 0], [1, 1]])
    assert np.array_equal(metalcore.gather(x, 1, index), np.take_along_axis(x, index, 1))
    assert np.array_equal(metalcore.index_select(x, 1, np.array([2, 2])), x[:, [2, 2]])


@pytest.mark.parametrize("value", [4, -1])
def test_index_out_of_range(value: int) -> None:
    index = torch.zeros(3, 2, dtype=torch.int64)
    index[1, 1] = value
    message = rf"index has {value} at place 3, which is out of range: it must be in 0 to 3"
    with pytest.raises(IndexRangeError, match=message):
        metalcore.gather(X, 1, index)
    with pytest.raises(IndexRangeError, match=message):
        metalcore.scatter_add(X, 1, index, torch.ones(3, 2))
    with pytest.raises(IndexRangeError, match=rf"index has {value} at place 1"):
        metalcore.index_select(X, 1, torch.tensor([0, value, 9]))
    with pytest.raises(IndexRangeError, match=rf"index has {value} at place 0"):
        metalcore.index_select(X.t(), 0, torch.tensor([value]))


INDEX = torch.zeros(3, 2, dtype=torch.int64)


@pytest.mark.parametrize(
    ("run", "arguments", "message"),
    [
        (metalcore.gather, (X.long(), 0, INDEX), "gather: input must be float32"),
        (metalcore.gather, (X, 2, INDEX), "gather: dim must be in -2 to 1, not 2"),
        (metalcore.gather, (X, 0, INDEX.float()), "gather: index must be int64, int32 or uint32"),
        (metalcore.gather, (X, 0, INDEX[0]), "gather: index must be of 2 dimensions"),
        (metalcore.gather, (X, 1, torch.zeros(4, 1, dtype=torch.int64)), "gather: index must be no larger"),
        (metalcore.index_select, (X, 0, INDEX), "index_select: index must be of one dimension"),
        (metalcore.index_select, (X, 0.0, INDEX[0]), "index_select: dim must be in -2 to 1"),
        (metalcore.scatter_add, (X, 0, INDEX, torch.ones(2, 2)), "scatter_add: index must be no larger than src"),
        (metalcore.scatter_add, (X, 0, INDEX, torch.ones(3, 2).half()), "scatter_add: src must be of the input's"),
        (metalcore.scatter_add, (X[:2], 1, INDEX, torch.ones(3, 2)), "scatter_add: index must be no larger than the"),
        (metalcore.scatter_add, (X, 0, INDEX, torch.ones(3)), "scatter_add: index and src must be of 2 dimensions"),
    ],
)
def test_bad_arguments(run: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        run(*arguments)

"""Pseudoinverse, least squares, rank and condition, beside torch's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError

SHAPES = [(5, 3), (3, 5), (7, 4, 4), (40, 33), (0, 3), (3, 0)]
NORMS = [None, 2, -2, 1, -1, math.inf, -math.inf, "fro", "nuc"]


def made(*shape: int, seed: int = 0, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def low_rank() -> torch.Tensor:
    return made(6, 2) @ made(2, 5, seed=1)


@pytest.mark.sweep
def test_pinv() -> None:
    for shape in SHAPES:
        a = made(*shape)
        torch.testing.assert_close(metalcore.linalg.pinv(a), torch.linalg.pinv(a), rtol=1e-4, atol=1e-4)
    a = low_rank()
    for named in ({}, {"rtol": 0.9}, {"atol": 1e-3}, {"atol": 1e9}):
        torch.testing.assert_close(
            metalcore.linalg.pinv(a, **named), torch.linalg.pinv(a, **named), rtol=1e-4, atol=1e-5
        )
    square = a @ a.mT
    torch.testing.assert_close(
        metalcore.linalg.pinv(square, hermitian=True), torch.linalg.pinv(square), rtol=1e-3, atol=1e-4
    )


def test_matrix_rank() -> None:
    for shape in SHAPES:
        found = metalcore.linalg.matrix_rank(made(*shape))
        assert found.dtype == torch.int64 and torch.equal(found, torch.linalg.matrix_rank(made(*shape)))
    a = low_rank()
    for named in ({}, {"rtol": 0.9}, {"atol": 1e-3}, {"atol": 1e9}, {"atol": torch.tensor(0.5), "rtol": 0.0}):
        assert int(metalcore.linalg.matrix_rank(a, **named)) == int(torch.linalg.matrix_rank(a, **named))
    assert int(metalcore.linalg.matrix_rank(a @ a.mT, hermitian=True)) == 2
    assert metalcore.linalg.matrix_rank(np.zeros((2, 3, 3), np.float32)).tolist() == [0, 0]


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
def test_lstsq(driver: str | None) -> None:
    for shape in ((5, 3), (3, 5), (7, 6, 3)):
        a, b = made(*shape), made(*shape[:-1], 2, seed=1)
        ours, theirs = metalcore.linalg.lstsq(a, b, driver=driver), torch.linalg.lstsq(a, b, driver=driver)
        assert type(ours) is type(theirs)
        for x, y in zip(ours, theirs, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-3, atol=1e-4)


def test_lstsq_of_low_rank() -> None:
    a, b = low_rank(), made(6, 2, seed=2)
    ours, theirs = metalcore.linalg.lstsq(a, b, driver="gelsd"), torch.linalg.lstsq(a, b, driver="gelsd")
    torch.testing.assert_close(ours.solution, theirs.solution, rtol=1e-3, atol=1e-4)
    assert int(ours.rank) == 2 and ours.residuals.numel() == 0 == theirs.residuals.numel()
    assert int(metalcore.linalg.lstsq(a, b, rcond=0.99).rank) == 1


def test_lstsq_of_vectors_and_batches() -> None:
    a, b = made(5, 3), made(5, seed=1)
    torch.testing.assert_close(metalcore.linalg.lstsq(a, b).solution, torch.linalg.pinv(a) @ b, rtol=1e-4, atol=1e-5)
    several = made(4, 5, 2, seed=2)
    found = metalcore.linalg.lstsq(a, several, driver="gels")
    torch.testing.assert_close(found.solution, torch.linalg.pinv(a) @ several, rtol=1e-4, atol=1e-5)
    assert found.residuals.shape == (4, 2) and found.rank.numel() == 0


@pytest.mark.parametrize("p", NORMS)
def test_cond(p: Any) -> None:
    a = made(3, 4, 4) + 2 * torch.eye(4)
    torch.testing.assert_close(metalcore.linalg.cond(a, p), torch.linalg.cond(a, p), rtol=1e-4, atol=1e-4)
    singular = torch.stack([torch.eye(3), torch.ones(3, 3)])
    if p in (1, -1, math.inf, -math.inf, "fro"):
        assert metalcore.linalg.cond(singular, p).isinf().tolist() == [False, True]


def test_cond_of_other_shapes() -> None:
    a = made(5, 3)
    torch.testing.assert_close(metalcore.linalg.cond(a), torch.linalg.cond(a), rtol=1e-4, atol=1e-4)
    for shape in ((0, 0), (3, 0), (0, 3, 3), (2, 0, 0)):
        assert torch.equal(metalcore.linalg.cond(torch.zeros(shape)), torch.linalg.cond(torch.zeros(shape)))
    assert metalcore.linalg.cond(np.diag(np.array([4.0, 2.0], np.float32))) == 2


@pytest.mark.sweep
def test_gradients() -> None:
    for shape in ((4, 3), (3, 4), (2, 3, 3)):
        a = made(*shape, dtype=torch.float64).requires_grad_()
        b = made(*shape[:-1], 2, seed=1, dtype=torch.float64).requires_grad_()
        assert torch.autograd.gradcheck(metalcore.linalg.pinv, a)
        assert torch.autograd.gradcheck(lambda a, b: metalcore.linalg.lstsq(a, b).solution, (a, b))
    assert torch.autograd.gradcheck(metalcore.linalg.cond, a)


@pytest.mark.sweep
def test_in_torch_programs() -> None:
    ops, a, b = torch.ops.metalcore, made(4, 3).requires_grad_(), made(4, 2, seed=1).requires_grad_()
    torch.library.opcheck(ops.linalg_pinv.default, (a, 0.0, 1e-6, False))
    torch.library.opcheck(ops.linalg_lstsq.default, (a, b, 1e-6))
    torch.library.opcheck(ops.linalg_matrix_rank.default, (a.detach(), 0.0, 1e-6, False))


def test_bad_input() -> None:
    a = made(4, 3)
    for wrong in (lambda: metalcore.linalg.lstsq(a, made(3, 2)), lambda: metalcore.linalg.lstsq(a, a.double())):
        with pytest.raises(ArgumentError, match="B"):
            wrong()
    with pytest.raises(ArgumentError, match="driver"):
        metalcore.linalg.lstsq(a, a, driver="qr")
    with pytest.raises(ArgumentError, match="p"):
        metalcore.linalg.cond(a, 3)
    for function in (metalcore.linalg.pinv, metalcore.linalg.matrix_rank):
        with pytest.raises(ArgumentError, match="square"):
            function(a, hermitian=True)
        with pytest.raises(ArgumentError, match="rtol"):
            function(a, rtol="small")
        with pytest.raises(torch.linalg.LinAlgError, match="non-finite"):
            function(torch.full((3, 3), math.nan))

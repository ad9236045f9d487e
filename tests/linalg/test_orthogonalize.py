"""Orthonormal bases of any matrix."""

from __future__ import annotations

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.health.linalg.matrices import make
from metalcore.health.linalg.ratios import orthogonality

KINDS = (
    "random",
    "rank_deficient",
    "zero",
    "zero_columns",
    "equal_columns",
    "equal_rows",
    "hilbert",
    "near_overflow",
    "near_underflow",
    "graded",
)


@pytest.mark.parametrize("shape", [(1000, 10), (10, 1000), (3, 100), (70, 40)])
def test_any_shape_and_condition(shape: tuple[int, int]) -> None:
    for kind in KINDS:
        Q = metalcore.linalg.orthogonalize(torch.tensor(make(kind, *shape), dtype=torch.float32))
        assert Q.shape == shape
        assert orthogonality(Q)["orthogonality"] < 30, kind


def test_an_orthonormal_basis_stays() -> None:
    Q = torch.linalg.qr(torch.randn(9, 4, generator=torch.Generator().manual_seed(0))).Q
    torch.testing.assert_close(metalcore.linalg.orthogonalize(Q), Q, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(metalcore.linalg.orthogonalize(Q.T), Q.T, rtol=1e-5, atol=1e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(4, 3), (3, 4)])
def test_gradient(shape: tuple[int, int]) -> None:
    A = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    assert torch.autograd.gradcheck(metalcore.linalg.orthogonalize, (A,))


@pytest.mark.parametrize("shape", [(4, 2), (2, 7, 7), (50, 20), (3, 0), (5, 1)])
def test_complete_basis(shape: tuple[int, ...]) -> None:
    Q = torch.linalg.qr(torch.randn(shape, generator=torch.Generator().manual_seed(2))).Q
    whole = metalcore.linalg.complete_basis(Q)
    assert whole.shape == (*shape[:-1], shape[-2])
    assert torch.equal(whole[..., : shape[-1]], Q)
    assert orthogonality(whole)["orthogonality"] < 30


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="columns as rows"):
        metalcore.linalg.complete_basis(torch.randn(2, 3))
    with pytest.raises(ArgumentError, match="a matrix"):
        metalcore.linalg.orthogonalize(torch.ones(3))

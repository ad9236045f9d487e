"""Reflectors as LAPACK keeps them, against torch."""

from __future__ import annotations

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError

SHAPES = [(3, 4, 4), (2, 7, 3), (2, 3, 7), (40, 33), (2, 33, 70)]


@pytest.mark.parametrize("shape", SHAPES)
def test_geqrf_and_what_is_made_of_it(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(shape, generator=generator)
    a, tau = metalcore.linalg.geqrf(A)
    expected, expected_tau = torch.geqrf(A)
    torch.testing.assert_close(a, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(tau, expected_tau, rtol=1e-4, atol=1e-5)
    if shape[-2] >= shape[-1]:
        Q = metalcore.linalg.householder_product(a, tau)
        torch.testing.assert_close(Q, torch.linalg.householder_product(a, tau), rtol=1e-4, atol=1e-5)
    for left in (True, False):
        rows = shape[-2]
        other = torch.randn((*shape[:-2], rows, 5) if left else (*shape[:-2], 5, rows), generator=generator)
        before = other.clone()
        for transpose in (True, False):
            found = metalcore.linalg.ormqr(a, tau, other, left, transpose)
            torch.testing.assert_close(found, torch.ormqr(a, tau, other, left, transpose), rtol=1e-4, atol=1e-4)
        assert torch.equal(other, before)


def test_fewer_reflectors_than_columns() -> None:
    generator = torch.Generator().manual_seed(1)
    A, tau = torch.randn(5, 4, generator=generator), torch.rand(2, generator=generator)
    found = metalcore.linalg.householder_product(A, tau)
    torch.testing.assert_close(found, torch.linalg.householder_product(A, tau), rtol=1e-5, atol=1e-5)


@pytest.mark.sweep
def test_gradient_of_the_product() -> None:
    generator = torch.Generator().manual_seed(2)
    A = torch.randn(2, 4, 3, dtype=torch.float64, generator=generator).requires_grad_()
    tau = torch.rand(2, 2, dtype=torch.float64, generator=generator).requires_grad_()
    assert torch.autograd.gradcheck(metalcore.linalg.householder_product, (A, tau))


@pytest.mark.sweep
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_gradients_of_ormqr(left: bool, transpose: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    A = torch.randn(2, 4, 3, dtype=torch.float64, generator=generator).requires_grad_()
    tau = torch.rand(2, 2, dtype=torch.float64, generator=generator).requires_grad_()
    C = torch.randn((2, 4, 5) if left else (2, 5, 4), dtype=torch.float64, generator=generator).requires_grad_()
    assert torch.autograd.gradcheck(lambda *given: metalcore.linalg.ormqr(*given, left, transpose), (A, tau, C))


def test_bad_input() -> None:
    A, tau = torch.randn(4, 3), torch.rand(3)
    with pytest.raises(ArgumentError, match="at most 3"):
        metalcore.linalg.householder_product(A, torch.rand(4))
    with pytest.raises(ArgumentError, match="rows as columns"):
        metalcore.linalg.householder_product(A.T, tau)
    with pytest.raises(ArgumentError, match="dtype"):
        metalcore.linalg.householder_product(A, tau.half())
    with pytest.raises(ArgumentError, match="tau must be of shape"):
        metalcore.linalg.householder_product(A, tau[None])
    with pytest.raises(ArgumentError, match="of 4 rows"):
        metalcore.linalg.ormqr(A, tau, torch.randn(3, 2))
    with pytest.raises(ArgumentError, match="batch"):
        metalcore.linalg.ormqr(A, tau, torch.randn(2, 4, 2))

"""A = P L U: a matrix a thread, panels, gradients, and systems that are solved with the factors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError, IndexRangeError
from metalcore.health.linalg import ratios
from metalcore.health.linalg.matrices import KINDS, make
from metalcore.ops import find
from tests.linalg.routes import array_for, runtime

SHAPES = [(1, 1), (3, 3), (40, 4, 4), (9, 5, 3), (2, 5, 3, 7), (32, 32), (2, 33, 33), (40, 20), (20, 50), (2, 70, 100)]
EMPTY = [(0, 3, 3), (0, 64, 64), (2, 0, 3), (2, 3, 0), (0, 0)]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("shape", SHAPES + EMPTY, ids=str)
def test_as_torch(shape: tuple[int, ...]) -> None:
    a = random(*shape)
    ours, theirs = metalcore.linalg.lu_factor_ex(a), torch.linalg.lu_factor_ex(a)
    assert type(ours) is type(theirs) and ours.LU.shape == theirs.LU.shape
    assert torch.equal(ours.pivots, theirs.pivots) and torch.equal(ours.info, theirs.info)
    assert ours.pivots.dtype == ours.info.dtype == torch.int32
    parts, their_parts = metalcore.linalg.lu(a), torch.linalg.lu(a)
    for part, other in zip(parts, their_parts, strict=True):
        assert part.shape == other.shape
    assert torch.equal(parts.P, their_parts.P)
    assert max(ratios.lu(*(x.numpy() for x in (a, *parts))).values(), default=0.0) < 30
    assert torch.equal(ours.LU.triu()[..., : parts.U.shape[-2], :], parts.U)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_matrices(kind: str) -> None:
    for rows, columns, batch in ((5, 5, (9,)), (40, 40, ())):
        values = make(kind, rows, columns, batch)
        parts = metalcore.linalg.lu(values.astype(np.float32))
        assert max(ratios.lu(values, *parts).values()) < 30


def test_layouts_and_small_types() -> None:
    a = random(12, 6, 6).mT[::2]
    assert not a.is_contiguous()
    assert torch.equal(metalcore.linalg.lu_factor(a).LU, metalcore.linalg.lu_factor(a.contiguous()).LU)
    half = a.half()
    assert torch.equal(metalcore.linalg.lu_factor(half).LU, metalcore.linalg.lu_factor(half.float()).LU.half())
    with pytest.raises(ArgumentError, match="complex"):
        metalcore.linalg.lu(torch.eye(2, dtype=torch.complex64))
    with pytest.raises(ArgumentError, match="matrix"):
        metalcore.linalg.lu_factor(torch.ones(3))


@pytest.mark.parametrize("shape", [(20, 4, 4), (1, 40, 40)], ids=str)
def test_without_pivots(shape: tuple[int, ...]) -> None:
    a = random(*shape) + 8 * torch.eye(shape[-1])
    found = metalcore.linalg.lu(a, pivot=False)
    assert found.P.numel() == 0
    assert max(ratios.lu(a.numpy(), np.eye(shape[-1]), found.L.numpy(), found.U.numpy()).values()) < 30
    rows = torch.arange(1, shape[-1] + 1, dtype=torch.int32)
    assert torch.equal(metalcore.linalg.lu_factor(a, pivot=False).pivots, rows.expand(shape[:-1]))


@pytest.mark.parametrize("shape", [(9, 4, 4), (2, 40, 40)], ids=str)
def test_singular(shape: tuple[int, ...]) -> None:
    a = random(*shape)
    a[1, :, 2] = 0
    assert metalcore.linalg.lu_factor_ex(a).info.tolist() == [0, 3, *[0] * (shape[0] - 2)]
    with pytest.raises(RuntimeError) as theirs:
        torch.linalg.lu_factor(a)
    with pytest.raises(RuntimeError) as ours:
        metalcore.linalg.lu_factor(a)
    assert str(ours.value) == str(theirs.value) and "(Batch element 1): U[3,3] is zero" in str(ours.value)
    with pytest.raises(RuntimeError, match="lu_factor_ex: U"):
        metalcore.linalg.lu_factor_ex(a[1], check_errors=True)
    assert torch.isfinite(metalcore.linalg.lu(a).U).all()


def test_not_finite() -> None:
    for shape in ((9, 4, 4), (1, 40, 40)):
        for value in (float("nan"), float("inf")):
            a = random(*shape)
            a[0, 1, 1] = value
            found = metalcore.linalg.lu_factor_ex(a)
            assert not torch.isfinite(found.LU[0]).all() and torch.isfinite(found.LU[1:]).all()


@pytest.mark.sweep
@pytest.mark.parametrize("route", ["apple", "mps text", "mlx text"])
def test_routes(route: str) -> None:
    run = runtime(route)
    for shape in ((300, 4, 4), (1, 40, 70)):
        a = random(*shape)
        given = array_for(route, a)
        factors, pivots, info = find("linalg_lu_factor_ex").forward.plan(run, given, True, False)
        expected = torch.linalg.lu_factor(a)
        assert np.array_equal(np.asarray(pivots), expected.pivots) and not np.asarray(info).any()
        np.testing.assert_allclose(np.asarray(factors), expected.LU, atol=1e-3)


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(3, 3), (9, 4, 2), (9, 2, 4)], ids=str)
def test_gradients(shape: tuple[int, ...]) -> None:
    a = random(*shape, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: metalcore.linalg.lu_factor(a).LU, (a,), fast_mode=True)
    assert not metalcore.linalg.lu(a).P.requires_grad
    assert torch.autograd.gradcheck(lambda a: metalcore.linalg.lu(a)[1:], (a,), fast_mode=True)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(left: bool, adjoint: bool) -> None:
    named = {"left": left, "adjoint": adjoint}
    for batch, n, sides in (((), 3, 2), ((2,), 40, 5)):
        a = random(*batch, n, n) + 3 * torch.eye(n)
        b = random(*batch, *((n, sides) if left else (sides, n)), seed=1)
        factors = torch.linalg.lu_factor(a)
        found = metalcore.linalg.lu_solve(*factors, b, **named)
        torch.testing.assert_close(found, torch.linalg.lu_solve(*factors, b, **named), rtol=1e-3, atol=1e-4)
    lu, pivots = torch.linalg.lu_factor(random(3, 3, dtype=torch.float64))
    b = random(2, 3, 3, dtype=torch.float64, seed=1).requires_grad_()
    lu.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda lu, b: metalcore.linalg.lu_solve(lu, pivots, b, **named), (lu, b), fast_mode=True
    )


def test_lu_solve_refuses() -> None:
    lu, pivots = torch.eye(3), torch.tensor([1, 2, 3], dtype=torch.int32)
    b = torch.ones(3, 2)
    with pytest.raises(IndexRangeError, match="pivot 4 at 1 is not one of 1 to 3"):
        metalcore.linalg.lu_solve(lu, torch.tensor([1, 4, 3], dtype=torch.int32), b)
    with pytest.raises(ArgumentError, match="int32"):
        metalcore.linalg.lu_solve(lu, pivots.long(), b)
    with pytest.raises(ArgumentError, match="pivots"):
        metalcore.linalg.lu_solve(lu, pivots[:2], b)
    with pytest.raises(ArgumentError, match="3 columns"):
        metalcore.linalg.lu_solve(lu, pivots, b, left=False)
    with pytest.raises(ArgumentError, match="LU's dtype"):
        metalcore.linalg.lu_solve(lu, pivots, b.double())

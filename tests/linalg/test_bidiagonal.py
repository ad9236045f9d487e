"""Singular values by way of a bidiagonal matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.arrays.torch import TorchArrays
from metalcore.health.linalg import ratios
from metalcore.health.linalg.matrices import KINDS, make
from metalcore.ops import find
from metalcore.runtimes.cpu import CpuRuntime
from tests.linalg.routes import ROUTES, array_for, runtime

SHAPES = [(1, 1), (2, 2), (3, 1), (3, 5), (5, 31), (33, 33), (2, 3, 65, 40), (7, 0), (0, 4, 4)]


def svd(a: Any, full: bool = False) -> Any:
    return metalcore.linalg.svd(a, full, driver="gesvd")


@pytest.mark.parametrize("shape", [*SHAPES, (131, 130), (150, 200)])
def test_shapes(shape: tuple[int, ...]) -> None:
    a = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    for full in (False, True):
        found, expected = svd(a, full), torch.linalg.svd(a, full)
        assert [t.shape for t in found] == [t.shape for t in expected]
        assert max(ratios.svd(a, *found).values()) < 35
        assert (found.S[..., :-1] >= found.S[..., 1:]).all()
    assert torch.equal(metalcore.linalg.svdvals(a, driver="gesvd"), found.S)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str) -> None:
    for rows, columns, batch in ((10, 10, (3,)), (33, 20, ()), (20, 33, ()), (64, 64, ())):
        a = make(kind, rows, columns, batch)
        assert max(ratios.svd(a, *svd(a.astype(np.float32))).values()) < 35, (rows, columns)


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_bidiagonal_matrix_that_falls_or_grows(is_reversed: bool) -> None:
    """QR steps go from the larger end to the smaller one: the smallest value of such a matrix keeps its digits."""
    d = torch.logspace(0, -6, 40, dtype=torch.float64)
    a = torch.diag(d.flip(0) if is_reversed else d) + torch.diag(0.5 * d[1:].flip(0) if is_reversed else 0.5 * d[1:], 1)
    found, exact = svd(a.float()).S, torch.linalg.svdvals(a.float().double())
    assert float((found.double() / exact - 1).abs()[:20].max()) < 1e-5
    assert float((found.double() - exact).abs().max()) < 1e-6


def test_no_number_is_an_error() -> None:
    a = torch.ones(3, 40, 40)
    a[1, 2, 3] = torch.nan
    with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 1\): .* non-finite values"):
        svd(a)
    with pytest.raises(torch.linalg.LinAlgError, match="non-finite values"):
        metalcore.linalg.svdvals(a[1, :, :20], driver="gesvd")


def test_gradients() -> None:
    for shape in ((3, 3), (2, 5, 3)):
        a = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()

        def invariant(a: torch.Tensor) -> Any:
            U, S, Vh = svd(a)
            return S, U @ Vh, U @ U.mT

        assert torch.autograd.gradcheck(invariant, a)
        assert torch.autograd.gradcheck(lambda a: metalcore.linalg.svdvals(a, driver="gesvd"), a)


@pytest.mark.sweep
@pytest.mark.parametrize("route", ROUTES)
def test_routes(route: str) -> None:
    run = runtime(route)
    for shape in ((2, 40, 40), (70, 33)):
        a = torch.randn(shape, generator=torch.Generator().manual_seed(2))
        given = array_for(route, a)
        found = find("linalg_svd").forward.plan(run, given, True, "gesvd")[:3]
        assert max(ratios.svd(a, *found).values()) < 35


@pytest.mark.sweep
def test_sanitized() -> None:
    with metalcore.mode("sanitize") as report:
        for family in ("cpu", "apple"):
            run = CpuRuntime(TorchArrays(), family=family)
            for a in (torch.randn(2, 70, 70), torch.randn(9, 4), torch.zeros(4, 40)):
                found = find("linalg_svd").forward.plan(run, a, True, "gesvd")[:3]
                assert max(ratios.svd(a, *found).values()) < 35
    assert not report.findings, report

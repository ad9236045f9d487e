"""Eigenvalues and eigenvectors: a matrix a thread, and a matrix a threadgroup."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.arrays.torch import TorchArrays
from metalcore.errors import ArgumentError
from metalcore.health.linalg import ratios
from metalcore.health.linalg.matrices import SYMMETRIC, make
from metalcore.ops.linalg.eigh import decompose
from metalcore.runtimes.cpu import CpuRuntime
from tests.linalg.routes import ROUTES, array_for, runtime

SHAPES = [(0, 0), (0, 4, 4), (2, 0, 0), (1, 1), (3, 3), (40, 4, 4), (5, 31, 31), (32, 32), (2, 33, 33), (100, 100)]


def symmetric(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    half = torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (half + half.mT).to(dtype)


@pytest.mark.parametrize("UPLO", ["L", "U"])
def test_every_way(UPLO: str) -> None:
    for shape in SHAPES:
        a = symmetric(*shape)
        given = a + 7 * (a.triu(1) if UPLO == "L" else a.tril(-1))  # the other triangle is not read
        found = metalcore.linalg.eigh(given, UPLO)
        assert isinstance(found, torch.return_types.linalg_eigh)
        assert found.eigenvalues.shape == shape[:-1] and found.eigenvectors.shape == shape
        assert max(ratios.eigh(a, *found).values()) < 60, shape
        assert max(ratios.eigenvalues(a, metalcore.linalg.eigvalsh(given, UPLO)).values()) < 60, shape


@pytest.mark.parametrize("kind", SYMMETRIC)
def test_kinds(kind: str) -> None:
    for n, batch in ((10, (7,)), (50, ())):
        a = make(kind, n, n, batch)
        found = metalcore.linalg.eigh(a.astype(np.float32))
        assert max(ratios.eigh(a, *found).values()) < 60, n


@pytest.mark.parametrize("route", ROUTES)
def test_routes(route: str) -> None:
    run = runtime(route)
    for shape in ((3, 3, 3), (2, 70, 70)):
        a = symmetric(*shape)
        given = array_for(route, a)
        values, vectors = decompose(run, given, False, True)
        assert max(ratios.eigh(a, values, vectors).values()) < 60


@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_no_number_is_an_error(n: int, bad: float) -> None:
    a = symmetric(5, n, n)
    a[3, 2, 1] = bad
    for function in (metalcore.linalg.eigh, metalcore.linalg.eigvalsh):
        with pytest.raises(torch.linalg.LinAlgError, match=r"linalg.eigh: \(Batch element 3\): The algorithm failed"):
            function(a)
        with pytest.raises(torch.linalg.LinAlgError, match=r"linalg.eigh: The algorithm failed to converge"):
            function(a[3])
        assert function(a, UPLO="U")[0].isfinite().all()  # it is in the lower triangle
    with pytest.raises(np.linalg.LinAlgError):
        metalcore.linalg.eigh(a.numpy())


@pytest.mark.sweep
def test_gradients() -> None:
    def invariant(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, vectors = metalcore.linalg.eigh(a + a.mT)
        return values, vectors.abs(), (vectors * values.unsqueeze(-2).exp()) @ vectors.mT

    a = symmetric(2, 3, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(invariant, a)
    assert torch.autograd.gradcheck(lambda a: metalcore.linalg.eigvalsh(a + a.mT, "U"), a)


def test_gradient_is_that_of_torch() -> None:
    a = symmetric(3, 6, 6).requires_grad_()
    weight = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(1))
    found = []
    for where in (metalcore.linalg, torch.linalg):
        values, vectors = where.eigh(a)
        found.append(torch.autograd.grad((vectors.abs() * weight).sum() + values.square().sum(), a)[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
    same = torch.eye(4, requires_grad=True)  # equal eigenvalues, nothing flows through the vectors
    metalcore.linalg.eigh(same).eigenvalues.sum().backward()
    assert same.grad is not None
    torch.testing.assert_close(same.grad, torch.eye(4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_is_worked_on_in_float32(dtype: Any) -> None:
    a = symmetric(3, 4, 4).to(dtype)
    values, vectors = metalcore.linalg.eigh(a)
    assert values.dtype == vectors.dtype == dtype
    assert torch.equal(values, metalcore.linalg.eigh(a.float()).eigenvalues.to(dtype))


def test_layouts_and_frameworks() -> None:
    import mlx.core as mx

    a = symmetric(6, 5, 5)
    expected = torch.linalg.eigvalsh(a)
    strided = torch.zeros(6, 5, 10)[..., ::2].copy_(a)
    for given in (strided, a.mT):
        torch.testing.assert_close(metalcore.linalg.eigvalsh(given), expected, rtol=1e-5, atol=1e-5)
    found = metalcore.mlx.linalg.eigh(mx.array(a.numpy()))
    np.testing.assert_allclose(np.array(found.eigenvalues), expected, rtol=1e-5, atol=1e-5)


def test_in_torch_programs() -> None:
    a = symmetric(2, 4, 4).requires_grad_()
    torch.library.opcheck(torch.ops.metalcore.linalg_eigh.default, (a, False))

    def total(a: torch.Tensor) -> Any:
        values, vectors = metalcore.linalg.eigh(a)
        return values.sum() + vectors.abs().sum()

    compiled = torch.compile(total, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(a), total(a))


@pytest.mark.sweep
def test_sanitized() -> None:
    run = CpuRuntime(TorchArrays(), family="apple")
    with metalcore.mode("sanitize") as report:
        metalcore.linalg.eigh(symmetric(2, 3, 3))
        decompose(run, symmetric(2, 40, 40), True, True)
    assert not report


def test_bad_arguments() -> None:
    wrong = (torch.zeros(3, 4), torch.zeros(3), torch.zeros(3, 3).int(), torch.zeros(3, 3, dtype=torch.complex64))
    for function in (metalcore.linalg.eigh, metalcore.linalg.eigvalsh):
        for given in wrong:
            with pytest.raises(ArgumentError, match="A must be"):
                function(given)
        for UPLO in ("X", "lower", 1, None):
            with pytest.raises(ArgumentError, match="UPLO must be"):
                function(torch.eye(2), UPLO)
        assert torch.equal(metalcore.linalg.eigvalsh(torch.eye(2), "u"), torch.ones(2))

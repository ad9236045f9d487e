"""Singular values and vectors: a matrix a thread, and kernels with blocks of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.arrays.torch import TorchArrays
from metalcore.errors import ArgumentError
from metalcore.health.linalg import ratios
from metalcore.health.linalg.graded import jacobi_values, scaled_matrix
from metalcore.health.linalg.matrices import KINDS, make
from metalcore.ops import find
from metalcore.runtimes.cpu import CpuRuntime
from tests.linalg.routes import ROUTES, array_for, runtime

SHAPES = [(1, 1), (3, 3), (7, 3, 5), (40, 5, 3), (9, 8, 8), (2, 33), (50, 40), (2, 5, 100), (130, 129)]


def made(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("full", [False, True])
def test_every_way(full: bool) -> None:
    for shape in SHAPES:
        a = made(*shape)
        found = metalcore.linalg.svd(a, full)
        expected = torch.linalg.svd(a, full)
        assert isinstance(found, torch.return_types.linalg_svd)
        assert [t.shape for t in found] == [t.shape for t in expected]
        assert max(ratios.svd(a, *found).values()) < 35, shape
        assert max(ratios.singular_values(a, metalcore.linalg.svdvals(a)).values()) < 35, shape


def test_no_elements() -> None:
    for shape in ((0, 3), (3, 0), (2, 0, 3), (0, 3, 3), (0, 50, 40), (0, 0)):
        for full in (False, True):
            ours, theirs = metalcore.linalg.svd(torch.zeros(shape), full), torch.linalg.svd(torch.zeros(shape), full)
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True)), shape


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str) -> None:
    for rows, columns, batch in ((8, 8, (7,)), (8, 5, (7,)), (40, 50, ())):
        a = make(kind, rows, columns, batch)
        found = ratios.svd(a, *metalcore.linalg.svd(a.astype(np.float32)))
        assert max(found["left"], found["right"]) < 30 and max(found.values()) < 35, (rows, columns)


@pytest.mark.parametrize("side", ["rows", "columns"])
def test_small_values_of_scaled_matrices(side: str) -> None:
    for n, batch in ((8, 7), (40, 1), (150, 2)):
        a = scaled_matrix(n, side)
        exact = jacobi_values(a.T if side == "rows" else a).copy()
        given = torch.tensor(a, dtype=torch.float32).expand(batch, n, n)
        for found in (metalcore.linalg.svd(given).S[0], metalcore.linalg.svdvals(given)[0]):
            assert float((found.double() / torch.tensor(exact) - 1).abs().max()) < 1e-5


def test_diagonal() -> None:
    a = torch.diag(torch.tensor([3.0, -5.0, 0.0, 0.0, 7.0]))
    for given in (a, a.expand(9, 5, 5)):
        U, S, Vh = metalcore.linalg.svd(given)
        torch.testing.assert_close(S, torch.tensor([7.0, 5.0, 3.0, 0.0, 0.0]).expand(S.shape), rtol=1e-6, atol=0)
        torch.testing.assert_close((U * S[..., None, :]) @ Vh, given, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_no_number_is_an_error(bad: float) -> None:
    for n in (5, 40):
        a = made(9, n, n)
        a[7, 2, 1] = bad
        for function in (metalcore.linalg.svd, metalcore.linalg.svdvals):
            with pytest.raises(
                torch.linalg.LinAlgError, match=r"linalg.svd: \(Batch element 7\): .* non-finite values"
            ):
                function(a)
            with pytest.raises(torch.linalg.LinAlgError, match=r"linalg.svd: The algorithm failed to converge"):
                function(a[7])
    with pytest.raises(np.linalg.LinAlgError):
        metalcore.linalg.svd(a.numpy())


def test_bad_input() -> None:
    for given in (torch.zeros(3), torch.zeros(3, 3, dtype=torch.complex64), torch.zeros(3, 3, dtype=torch.int64)):
        with pytest.raises(ArgumentError, match="A"):
            metalcore.linalg.svd(given)
    with pytest.raises(ArgumentError, match="driver"):
        metalcore.linalg.svd(torch.eye(2), driver="gesvda")


def invariant(a: torch.Tensor, full: bool) -> tuple[torch.Tensor, ...]:
    U, S, Vh = metalcore.linalg.svd(a, full)
    k = S.shape[-1]
    U, Vh, weights = U[..., :k], Vh[..., :k, :], torch.arange(1, k + 1, dtype=a.dtype)
    return S, (U * weights) @ Vh, (U * weights) @ U.mT, (Vh.mT * weights) @ Vh


def test_gradients() -> None:
    for shape in ((2, 3, 3), (5, 3), (3, 5)):
        a = made(*shape, dtype=torch.float64).requires_grad_()
        for full in (False, True):
            assert torch.autograd.gradcheck(lambda a, full=full: invariant(a, full), a)
        assert torch.autograd.gradcheck(metalcore.linalg.svdvals, a)
    same = torch.eye(4, requires_grad=True)  # equal values, nothing flows through the vectors
    metalcore.linalg.svd(same).S.sum().backward()
    torch.testing.assert_close(same.grad, torch.eye(4))


def test_low_precision_is_worked_on_in_float32() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        a = made(3, 4, 5).to(dtype)
        found, wide = metalcore.linalg.svd(a), metalcore.linalg.svd(a.float())
        assert all(torch.equal(x, y.to(dtype)) for x, y in zip(found, wide, strict=True))


def test_layouts_and_frameworks() -> None:
    import mlx.core as mx

    a = made(7, 5, 4)
    strided = torch.zeros(7, 5, 8)[..., ::2].copy_(a)
    for given in (strided, a.mT.contiguous().mT):
        assert max(ratios.svd(a, *metalcore.linalg.svd(given)).values()) < 35
    found = metalcore.mlx.linalg.svd(mx.array(a.numpy()))
    assert max(ratios.svd(a, *found).values()) < 35
    total = mx.grad(lambda a: metalcore.mlx.linalg.svdvals(a).sum())(mx.array(a.numpy()))
    U, _, Vh = torch.linalg.svd(a, full_matrices=False)
    np.testing.assert_allclose(np.array(total), U @ Vh, atol=1e-4)


def test_in_torch_programs() -> None:
    a = made(7, 4, 3).requires_grad_()
    torch.library.opcheck(torch.ops.metalcore.linalg_svd.default, (a, False, ""))
    torch.library.opcheck(torch.ops.metalcore.linalg_svdvals.default, (a, ""))

    def total(a: torch.Tensor) -> Any:
        return sum(x.abs().sum() for x in metalcore.linalg.svd(a, full_matrices=False))

    compiled = torch.compile(total, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(a), total(a))


@pytest.mark.parametrize("route", ROUTES)
def test_routes(route: str) -> None:
    run = runtime(route)
    for shape in ((257, 3, 5), (40, 33), *([] if route == "apple" else [(140, 130)])):
        a = made(*shape)
        given = array_for(route, a)
        assert max(ratios.svd(a, *find("linalg_svd").forward.plan(run, given, True, "")[:3]).values()) < 35


@pytest.mark.sweep
def test_sanitized() -> None:
    with metalcore.mode("sanitize") as report:
        for family in ("cpu", "apple"):
            run = CpuRuntime(TorchArrays(), family=family)
            for a in (made(6, 3, 5), made(260, 3, 3), made(9, 4), torch.zeros(4, 40)):
                found = find("linalg_svd").forward.plan(run, a, True, "")[:3]
                assert max(ratios.svd(a, *found).values()) < 35
    assert not report.findings, report


@pytest.mark.sweep
@pytest.mark.parametrize("n", [1, 2, 4, 10, 16, 31, 32])
def test_capacities(n: int) -> None:
    for kind in KINDS:
        for rows, columns in ((n, n), (n, n // 2), (n // 3, n)):
            a = make(kind, rows, columns, (33,))
            assert max(ratios.svd(a, *metalcore.linalg.svd(a.astype(np.float32))).values()) < 35, (kind, rows, columns)
            found = metalcore.linalg.svdvals(a.astype(np.float32))
            assert max(ratios.singular_values(a, found).values()) < 35, (kind, rows, columns)


@pytest.mark.sweep
@pytest.mark.parametrize("driver", ["gesvd", "gesvdj"])
def test_large(driver: str) -> None:
    for kind in ("random", "clustered", "rank_deficient", "graded"):
        a = make(kind, 512, 512)
        found = metalcore.linalg.svd(a.astype(np.float32), driver=driver)
        assert max(ratios.svd(a, *found).values()) < 35, kind


def test_a_workspace_that_cannot_be_had() -> None:
    """400 TB: more than a process has addresses for."""
    with pytest.raises(RuntimeError, match="allocate"):
        metalcore.linalg.svdvals(torch.zeros(1).expand(10_000_000, 10_000_000))
    with pytest.raises(MemoryError, match="allocate"):
        metalcore.linalg.svdvals(np.broadcast_to(np.zeros(1, np.float32), (10_000_000, 10_000_000)))

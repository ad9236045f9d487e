"""The largest singular values by block power iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.health.linalg import ratios
from metalcore.ops import find
from tests.linalg.routes import ROUTES, array_for, runtime


def spectrum(rows: int, columns: int, *leading: int) -> torch.Tensor:
    """Singular values 1, 1 / 2, 1 / 3, ..."""
    random, k = torch.Generator().manual_seed(0), min(rows, columns)
    left = torch.linalg.qr(torch.randn(*leading, rows, k, generator=random)).Q
    right = torch.linalg.qr(torch.randn(*leading, columns, k, generator=random)).Q
    return (left / torch.arange(1, k + 1)) @ right.mT


@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (50, 50), (30, 20, 3)])
def test_residual_is_that_of_torch(shape: tuple[int, ...]) -> None:
    rows, columns, *leading = shape
    A, k = spectrum(rows, columns, *leading), 6

    def residual(U: Any, S: Any, V: Any) -> float:
        return float(torch.linalg.matrix_norm(A - (U * S[..., None, :]) @ V.mT).max())

    torch.manual_seed(0)
    theirs = residual(*torch.svd_lowrank(A, k, niter=2))
    U, S, V = metalcore.linalg.svd_lowrank(A, k, niter=2)
    assert U.shape == (*leading, rows, k) and S.shape == (*leading, k) and V.shape == (*leading, columns, k)
    assert residual(U, S, V) < 1.2 * theirs  # both are random
    assert ratios.orthogonality(U)["orthogonality"] < 30 and ratios.orthogonality(V)["orthogonality"] < 30
    top = metalcore.linalg.topk_svd(A, k)
    assert isinstance(top, torch.return_types.linalg_svd) and top.Vh.shape == (*leading, k, columns)
    assert residual(top.U, top.S, top.Vh.mT) < 1.01 * theirs
    torch.testing.assert_close(top.S, torch.linalg.svdvals(A)[..., :k], rtol=1e-3, atol=1e-5)


def test_all_of_them() -> None:
    A = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(0))
    M = torch.randn(1, 5, generator=torch.Generator().manual_seed(1))
    U, S, V = metalcore.linalg.svd_lowrank(A, q=5, M=M)
    torch.testing.assert_close((U * S[..., None, :]) @ V.mT, A - M, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(S, torch.linalg.svdvals(A - M), rtol=1e-5, atol=1e-5)
    assert [x.shape for x in metalcore.linalg.svd_lowrank(A)] == [x.shape for x in torch.svd_lowrank(A)]  # q is 6
    found = metalcore.linalg.svd_lowrank(A.numpy(), q=0)
    assert [x.shape for x in found] == [(3, 7, 0), (3, 0), (3, 5, 0)]


@pytest.mark.sweep
@pytest.mark.parametrize("route", ROUTES)
def test_bands_of_a_gpu(route: str) -> None:
    """More columns than a band has; on mlx each band has a stream."""
    A, q = spectrum(90, 70), 66
    plan = find("linalg_svd_lowrank").forward.plan
    U, S, V = plan(runtime(route), array_for(route, A), None, q, 2, 0)
    exact = torch.linalg.svdvals(A.double())[:q]
    assert float((torch.from_numpy(np.asarray(S)).double() - exact).abs().max()) < 1e-3
    for vectors in (U, V):
        assert ratios.orthogonality(np.asarray(vectors))["orthogonality"] < 30


def test_seeds() -> None:
    A = spectrum(20, 16)
    first, same, other = (metalcore.linalg.topk_svd(A, 3, niter=0, seed=s).S for s in (1, 1, 2))
    assert torch.equal(first, same) and not torch.equal(first, other)


@pytest.mark.sweep
def test_gradients() -> None:
    random = torch.Generator().manual_seed(0)
    B, C, M = (
        torch.randn(*shape, generator=random, dtype=torch.float64).requires_grad_()
        for shape in ((6, 2), (2, 5), (1, 5))
    )

    def invariant(B: torch.Tensor, C: torch.Tensor) -> tuple[torch.Tensor, ...]:
        U, S, V = metalcore.linalg.svd_lowrank(B @ C, q=2, niter=4)
        weights = torch.tensor([1.0, 2.0], dtype=B.dtype)
        return S, (U * weights) @ V.mT, (U * weights) @ U.mT

    assert torch.autograd.gradcheck(invariant, (B, C))
    assert torch.autograd.gradcheck(lambda *x: metalcore.linalg.svd_lowrank(x[0] @ x[1], 3, 6, x[2])[1], (B, C, M))


def test_in_torch_programs() -> None:
    torch.library.opcheck(torch.ops.metalcore.linalg_svd_lowrank.default, (spectrum(9, 5), None, 2, 1, 0))


def test_bad_input() -> None:
    A = torch.eye(4)
    for wrong in ({"q": -1}, {"q": 1.5}, {"niter": -1}, {"M": torch.eye(3)}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            metalcore.linalg.svd_lowrank(A, **wrong)
    for wrong in ({"oversampling": -1}, {"seed": -1}, {"seed": 1 << 32}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            metalcore.linalg.topk_svd(A, 2, **wrong)
    with pytest.raises(np.linalg.LinAlgError):
        metalcore.linalg.topk_svd(np.full((3, 3), np.nan, np.float32), 2)

"""Cholesky factorisation: lanes, a block a simdgroup, and blocked."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.ops.linalg.cholesky import factorise
from tests.linalg.routes import array_for, runtime

SHAPES = [(0, 0), (0, 4, 4), (1, 1), (5, 5), (40, 3, 3), (20, 31, 31), (33, 33), (2, 64, 64), (3, 65, 65), (150, 150)]


def positive(*shape: int, dtype: Any = torch.float32, scale: float = 1.0) -> torch.Tensor:
    half = torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return ((half @ half.mT / max(1, shape[-1]) + 0.1 * torch.eye(shape[-1])) * scale).to(dtype)


def ratio(a: torch.Tensor, factor: Any, upper: bool) -> float:
    factor = torch.as_tensor(factor).double()
    assert torch.equal(factor, factor.triu() if upper else factor.tril())
    if a.numel() == 0:
        return 0.0
    product = factor.mT @ factor if upper else factor @ factor.mT
    scale = torch.linalg.matrix_norm(a.double(), 1) * a.shape[-1] * torch.finfo(torch.float32).eps
    return float((torch.linalg.matrix_norm(product - a.double(), 1) / scale).max())


@pytest.mark.parametrize("upper", [False, True])
def test_every_way(upper: bool) -> None:
    for shape in SHAPES:
        a = positive(*shape)
        other = a.tril(-1) if upper else a.triu(1)  # the triangle that is not read
        found = metalcore.linalg.cholesky(a + 7 * other, upper=upper)
        assert found.shape == a.shape and ratio(a, found, upper) < 30, shape


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_small_and_large_numbers(scale: float) -> None:
    for shape in ((20, 7, 7), (40, 40), (70, 70)):
        a = positive(*shape, scale=scale)
        assert ratio(a, metalcore.linalg.cholesky(a), False) < 30


@pytest.mark.parametrize("route", ["apple", "mlx text", pytest.param("mps text", marks=pytest.mark.sweep)])
def test_routes(route: str) -> None:
    run = runtime(route)
    for shape in ((2, 70, 70), (30, 3, 3)):
        a = positive(*shape)
        given = array_for(route, a)
        factor, info = factorise(run, given, False)
        assert ratio(a, factor, False) < 30
        assert not torch.as_tensor(info).any()


def test_info_and_errors() -> None:
    for n in (3, 40, 100):
        a = positive(20, n, n)
        for _ in range(3):  # the plan is remembered
            assert not metalcore.linalg.cholesky(a).isnan().any()
        a[7, n - 1, n - 1] = -1.0
        a[9, 1, 1] = float("nan")
        found = metalcore.linalg.cholesky_ex(a)
        assert isinstance(found, torch.return_types.linalg_cholesky_ex)
        assert found.info.dtype == torch.int32 and found.info[7] == n and found.info[9] == 2
        assert found.info.count_nonzero() == 2
        with pytest.raises(torch.linalg.LinAlgError) as ours:
            metalcore.linalg.cholesky(a)
        with pytest.raises(torch.linalg.LinAlgError) as theirs:
            torch.linalg.cholesky(a)
        assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("upper", [False, True])
def test_gradients(n: int, upper: bool) -> None:
    a = positive(n, n, dtype=torch.float64).requires_grad_()
    weight = torch.randn(n, n, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def ours(half: torch.Tensor) -> torch.Tensor:
        return metalcore.linalg.cholesky((half + half.mT) / 2, upper=upper)

    if n < 10:
        assert torch.autograd.gradcheck(ours, (a,))
    (found,) = torch.autograd.grad((ours(a) * weight).sum(), a)
    (truth,) = torch.autograd.grad((torch.linalg.cholesky((a + a.mT) / 2, upper=upper) * weight).sum(), a)
    assert torch.allclose(found, truth, rtol=1e-9, atol=1e-9)


def test_bad_input() -> None:
    for bad in (torch.ones(3), torch.ones(2, 3), torch.ones(3, 3, dtype=torch.complex64), torch.ones(3, 3).int()):
        with pytest.raises(ArgumentError):
            metalcore.linalg.cholesky(bad)


@pytest.mark.parametrize("upper", [False, True])
def test_solve_and_inverse(upper: bool) -> None:
    a = positive(2, 5, 5, dtype=torch.float64)
    factor = torch.linalg.cholesky(a, upper=upper)
    b = torch.randn(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x = metalcore.linalg.cholesky_solve(b, factor, upper)
    assert torch.allclose(a @ x, b.expand(2, 5, 3))
    assert torch.allclose(metalcore.linalg.cholesky_inverse(factor, upper=upper), a.inverse())
    factor, b = factor.requires_grad_(), b.requires_grad_()
    assert torch.autograd.gradcheck(lambda b, f: metalcore.linalg.cholesky_solve(b, f, upper=upper), (b, factor))
    assert torch.autograd.gradcheck(lambda f: metalcore.linalg.cholesky_inverse(f, upper=upper), (factor,))


@pytest.mark.sweep
def test_torch_knows_the_ops() -> None:
    ops = torch.ops.metalcore
    a = positive(2, 4, 4).requires_grad_()
    torch.library.opcheck(ops.linalg_cholesky.default, (a, False))
    torch.library.opcheck(ops.linalg_cholesky_ex.default, (a, True, False))
    b = torch.ones(2, 4, 1, requires_grad=True)
    torch.library.opcheck(ops.linalg_cholesky_solve.default, (b, a, False))
    torch.library.opcheck(ops.linalg_cholesky_inverse.default, (a, False))
    compiled = torch.compile(metalcore.linalg.cholesky, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(a), metalcore.linalg.cholesky(a))

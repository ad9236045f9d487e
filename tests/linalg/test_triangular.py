"""Systems with a triangular matrix."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.ops.linalg.base.triangular import solve_triangular
from metalcore.runtimes.cpu import torch_cpu
from tests.linalg.routes import array_for, runtime

FLAGS = list(itertools.product([False, True], repeat=4))


def made(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def triangular(*shape: int, seed: int = 0, unit: bool = False) -> torch.Tensor:
    """Both triangles are filled, and each makes a well-conditioned matrix."""
    n = shape[-1]
    a = made(*shape, seed=seed) / max(1, n) ** 0.5
    return a if unit else a + 2 * torch.eye(n)


def ratio(a: Any, x: Any, b: Any, upper: bool, transpose: bool, left: bool, unit: bool) -> float:
    """|op(a) x - b| / (|op(a)| |x| n eps), the worst of a batch."""
    a, x, b = (torch.as_tensor(v).double() for v in (a, x, b))
    m = a.triu() if upper else a.tril()
    if unit:
        m = m - torch.diag_embed(m.diagonal(dim1=-2, dim2=-1)) + torch.eye(a.shape[-1], dtype=a.dtype)
    m = m.mT if transpose else m
    residual = (m @ x if left else x @ m) - b
    if residual.numel() == 0:
        return 0.0
    norm = torch.linalg.matrix_norm
    scale = norm(m, 1) * norm(x, 1) * a.shape[-1] * torch.finfo(torch.float32).eps
    return float((norm(residual, 1) / scale).max())


@pytest.mark.parametrize("upper, transpose, left, unit", FLAGS[::5])
def test_shapes(upper: bool, transpose: bool, left: bool, unit: bool) -> None:
    for n, sides, leading in [
        (0, 3, ()),
        (1, 1, (2,)),
        (5, 0, ()),
        (7, 40, (3,)),
        (33, 33, ()),
        (70, 2, (2,)),
        (150, 40, ()),
    ]:
        a = triangular(*leading, n, n, unit=unit)
        b = made(*leading, *((n, sides) if left else (sides, n)), seed=1)
        given = b.clone()
        x = solve_triangular(torch_cpu(), a, b, upper=upper, transpose=transpose, left=left, unit=unit)
        assert tuple(x.shape) == tuple(b.shape) and torch.equal(b, given)
        assert ratio(a, x, b, upper, transpose, left, unit) < 30, (n, sides)


@pytest.mark.sweep
@pytest.mark.parametrize("upper, transpose, left, unit", FLAGS)
def test_all_shapes(upper: bool, transpose: bool, left: bool, unit: bool) -> None:
    for n, sides, leading in itertools.product((1, 2, 31, 63, 64, 65, 130), (1, 3, 32, 65), ((), (3,))):
        a = triangular(*leading, n, n, unit=unit)
        b = made(*leading, *((n, sides) if left else (sides, n)), seed=1)
        x = solve_triangular(torch_cpu(), a, b, upper=upper, transpose=transpose, left=left, unit=unit)
        assert ratio(a, x, b, upper, transpose, left, unit) < 30, (n, sides)


@pytest.mark.parametrize("route", ["apple", "mlx text", pytest.param("mps text", marks=pytest.mark.sweep)])
def test_routes(route: str) -> None:
    """Blocks and vectors, with the launches and the text that a GPU gets."""
    a, b = triangular(2, 70, 70), made(2, 70, 35, seed=1)
    run = runtime(route)
    x = solve_triangular(run, array_for(route, a), array_for(route, b), upper=True)
    assert ratio(a, x, b, True, False, True, False) < 30
    few = b[..., :2].contiguous()
    x = solve_triangular(run, array_for(route, a), array_for(route, few), upper=True)
    assert ratio(a, x, few, True, False, True, False) < 30


@pytest.mark.parametrize("upper, left, unit", [(False, True, False), (True, False, True)])
def test_public_function(upper: bool, left: bool, unit: bool) -> None:
    """The gradient of both arguments, with a batch of one of them."""
    a = triangular(2, 5, 5).double().requires_grad_()
    b = made(*((5, 3) if left else (3, 5)), seed=1).double().requires_grad_()

    def ours(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return metalcore.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)

    truth = torch.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)
    assert torch.allclose(ours(a, b), truth)
    assert torch.autograd.gradcheck(ours, (a, b))


def test_torch_knows_the_op() -> None:
    a, b = triangular(2, 5, 5).requires_grad_(), made(2, 5, 3).requires_grad_()
    torch.library.opcheck(torch.ops.metalcore.linalg_solve_triangular.default, (a, b, True, True, False))
    compiled = torch.compile(metalcore.linalg.solve_triangular, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(a, b, upper=True), metalcore.linalg.solve_triangular(a, b, upper=True))


@pytest.mark.parametrize(
    "a, b",
    [
        (torch.ones(2, 3), torch.ones(2, 3)),
        (torch.ones(3, 3), torch.ones(2, 3)),
        (torch.ones(2, 3, 3), torch.ones(3, 3, 3)),
        (torch.ones(3, 3), torch.ones(3)),
        (torch.ones(3, 3), torch.ones(3, 3).half()),
        (torch.ones(3, 3, dtype=torch.complex64), torch.ones(3, 3)),
    ],
)
def test_bad_input(a: torch.Tensor, b: torch.Tensor) -> None:
    with pytest.raises(ArgumentError, match=r"linalg\.solve_triangular"):
        metalcore.linalg.solve_triangular(a, b, upper=True)


def test_singular_matrix_gives_infinities_as_torch_does() -> None:
    a, b = torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([[3.0], [2.0]])
    truth = torch.linalg.solve_triangular(a, b, upper=True)
    assert truth.isinf().any() and torch.equal(metalcore.linalg.solve_triangular(a, b, upper=True), truth)

"""Products of matrices and updates of blocks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import metalcore
from metalcore.arrays.torch import TorchArrays
from metalcore.errors import ArgumentError
from metalcore.health.routes import text_mlx, text_mps
from metalcore.ops.linalg.base.product import Block, matmul, update
from metalcore.runtimes.cpu import CpuRuntime, torch_cpu

SIZES = (0, 1, 3, 31, 33, 97, 130)


def made(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def is_close(found: Any, a: torch.Tensor, b: torch.Tensor) -> bool:
    """Each element within the usual bound: depth * eps * |a| |b|."""
    found = torch.as_tensor(found)
    error = (found.double() - a.double() @ b.double()).abs()
    bound = (a.shape[-1] + 2) * torch.finfo(found.dtype).eps * (a.double().abs() @ b.double().abs())
    return tuple(found.shape) == tuple(error.shape) and bool((error <= bound).all())


@pytest.mark.parametrize("transpose_a, transpose_b", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_any_size(transpose_a: bool, transpose_b: bool) -> None:
    for rows, depth, columns in itertools.product(SIZES[:5], SIZES, SIZES[:6]):
        a, b = made(rows, depth), made(depth, columns, seed=1)
        given_a = a.mT.contiguous() if transpose_a else a
        given_b = b.mT.contiguous() if transpose_b else b
        found = matmul(torch_cpu(), given_a, given_b, transpose_a=transpose_a, transpose_b=transpose_b)
        assert is_close(found, a, b), (rows, depth, columns)


def test_batches() -> None:
    a, b = made(2, 3, 5, 7), made(2, 3, 7, 9, seed=1)
    assert is_close(matmul(torch_cpu(), a, b), a, b)
    assert is_close(matmul(torch_cpu(), a[0, 0], b), a[0, 0], b)
    assert is_close(matmul(torch_cpu(), a, b[0, 0]), a, b[0, 0])
    assert is_close(matmul(torch_cpu(), a, b[0, 0].mT.contiguous(), transpose_b=True), a, b[0, 0])


def updated(run: Any, lower: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """A block of a bigger matrix with the product of two others of it taken away, and what it should be."""
    whole = made(2, 50, 70)
    truth = whole.double()
    truth[:, 7:40, 20:60] -= truth[:, 3:36, :5] @ truth[:, 10:50, 65:].mT
    if type(run).__name__ == "MlxRuntime":
        import mlx.core as mx

        given: Any = mx.array(whole.numpy())
    else:
        given = whole.clone()
    c, a, b = Block(given, 7, 20, 33, 40), Block(given, 3, 0, 33, 5), Block(given, 10, 65, 40, 5)
    found = update(run, c, a, b, alpha=-1.0, transpose_b=True, lower=lower)
    if lower:  # what is above the diagonal is not looked at
        above = torch.ones(33, 40).triu(1).bool()
        truth[:, 7:40, 20:60][:, above] = 0
        found = torch.as_tensor(found).clone()
        found[:, 7:40, 20:60][:, above] = 0
    return torch.as_tensor(found), truth


@pytest.mark.parametrize(
    "route, lower",
    [
        ("cpu", False),
        ("apple", True),
        ("mlx text", True),
        pytest.param("cpu", True, marks=pytest.mark.sweep),
        pytest.param("mps text", True, marks=pytest.mark.sweep),
    ],
)
def test_update_changes_the_block_alone(route: str, lower: bool) -> None:
    run = {
        "cpu": torch_cpu,
        "apple": lambda: CpuRuntime(TorchArrays(), family="apple"),
        "mps text": text_mps,
        "mlx text": text_mlx,
    }[route]()
    found, truth = updated(run, lower)
    assert (found - truth).abs().max() < 1e-5


@pytest.mark.parametrize(
    "family, tile",
    [
        ("cpu", "16x16"),
        ("apple", "8x32"),
        *(pytest.param(f, t, marks=pytest.mark.sweep) for f in ("cpu", "apple") for t in ("32x8", "16x16", "8x32")),
    ],
)
def test_tile_of_the_environment(family: str, tile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles through threadgroup memory, and by simdgroup_matrix."""
    monkeypatch.setenv("METALCORE_MATMUL_TILE", tile)
    a, b = made(37, 41), made(41, 43, seed=1)
    run = CpuRuntime(TorchArrays(), family=family)
    assert is_close(matmul(run, a, b), a, b)
    for wrong in ("7x5", "big"):
        monkeypatch.setenv("METALCORE_MATMUL_TILE", wrong)
        with pytest.raises(ArgumentError, match=r"(?i)tile"):
            matmul(run, a, b)


def test_vectors_and_tiny_matrices() -> None:
    run = torch_cpu()
    a, x = made(3, 70, 41), made(3, 41, 1, seed=1)
    assert is_close(matmul(run, a, x), a, x)
    assert is_close(matmul(run, a[0], x), a[0], x)
    assert is_close(matmul(run, a, x[0]), a, x[0])
    assert is_close(matmul(run, x, a, transpose_a=True, transpose_b=True), x.mT, a.mT)
    a, b = made(45, 3, 7), made(45, 7, 5, seed=1)
    assert is_close(matmul(run, a, b), a, b)
    assert is_close(matmul(run, a.mT.contiguous(), b.mT.contiguous(), transpose_a=True, transpose_b=True), a, b)


def test_public_function() -> None:
    """Gradients of every kind of argument, and what torch makes of the op."""

    def doubles(*shape: int) -> torch.Tensor:
        return made(*shape).double().requires_grad_()

    ours = metalcore.linalg.matmul
    for first, second in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (2, 4, 2))):
        assert torch.autograd.gradcheck(ours, (doubles(*first), doubles(*second)))
    for first, second in (((4,), (4,)), ((3, 4), (4,)), ((4,), (2, 4, 3)), ((3, 0), (0, 2)), ((0, 3, 2), (2, 2))):
        a, b = made(*first), made(*second, seed=1)
        assert torch.allclose(ours(a, b), a @ b, atol=1e-6) and ours(a, b).shape == (a @ b).shape
    a, b = made(2, 3, 4).requires_grad_(), made(2, 4, 5).requires_grad_()
    torch.library.opcheck(torch.ops.metalcore.linalg_matmul.default, (a, b))
    assert torch.allclose(torch.compile(ours, fullgraph=True, backend="aot_eager")(a, b), a @ b, atol=1e-6)
    half = ours(a.half(), b.half())
    assert half.dtype == torch.float16 and torch.allclose(half.float(), a @ b, atol=1e-2)


@pytest.mark.parametrize(
    "first, second",
    [
        (torch.ones(2, 3), torch.ones(2, 3)),
        (torch.ones(2, 2, 3), torch.ones(3, 3, 3)),
        (torch.ones(2, 3, dtype=torch.complex64), torch.ones(3, 3)),
        (torch.ones(3), torch.tensor(1.0)),
        (torch.ones(3, 3), torch.ones(3, 3).half()),
        (torch.ones(3, 3), torch.ones(3, 3).int()),
    ],
)
def test_bad_input(first: torch.Tensor, second: torch.Tensor) -> None:
    with pytest.raises(ArgumentError, match=r"linalg\.matmul"):
        metalcore.linalg.matmul(first, second)

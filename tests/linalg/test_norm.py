"""Norms of vectors and matrices against torch's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.arrays.torch import TorchArrays
from metalcore.errors import ArgumentError
from metalcore.health.routes import text_mlx, text_mps
from metalcore.ops.linalg.norm import forward
from metalcore.runtimes.cpu import CpuRuntime

ORDS = (2, 1, 0, math.inf, -math.inf, 3)
FEW = (-1, 0.5, 2.5)
MATRIX_ORDS = ("fro", 1, -1, math.inf, -math.inf)
BY_SINGULAR_VALUES = ("nuc", 2, -2)


def randn(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def check(function: Any) -> None:
    """`function(linalg)` is the same for torch.linalg and metalcore.linalg."""
    torch.testing.assert_close(function(metalcore.linalg), function(torch.linalg), rtol=1e-5, atol=0, equal_nan=True)


@pytest.mark.parametrize("ord", [*ORDS, *FEW])
def test_vectors(ord: float) -> None:
    for shape, dims in (((), (None, 0)), ((5,), (None, 0)), ((2, 3, 33), (None, 0, -1, (0, 2), (1, 0)))):
        x = randn(*shape)
        for dim in dims:
            for keepdim in (False, True):
                check(lambda linalg, x=x, dim=dim, keepdim=keepdim: linalg.vector_norm(x, ord, dim, keepdim))
    for special in (math.nan, math.inf, 0.0):
        x = torch.tensor([[1.0, 2.0, special], [1.0, -2.0, 3.0]])
        check(lambda linalg, x=x: linalg.vector_norm(x, ord, 1))
        check(lambda linalg, x=x: linalg.vector_norm(x, ord, 0))


@pytest.mark.parametrize("ord", [1, 2, math.inf])
def test_long_vectors_are_taken_in_blocks(ord: float) -> None:
    for shape, dim in (((200_000,), 0), ((70_000, 3), 0), ((2, 70_000), 1)):
        x = randn(*shape)
        exact = torch.linalg.vector_norm(x.double(), ord, dim)
        torch.testing.assert_close(metalcore.linalg.vector_norm(x, ord, dim).double(), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e30, 1e38])
def test_nothing_overflows_on_the_way(scale: float) -> None:
    x = torch.tensor([[0.3, -0.4, 0.0, 1.2], [0.0, 0.0, 0.0, 0.0]]) * scale
    for ord in (2, 3):
        for dim in (0, 1):
            exact = torch.linalg.vector_norm(x.double(), ord, dim)
            found = metalcore.linalg.vector_norm(x, ord, dim)
            torch.testing.assert_close(found.double(), exact, rtol=1e-6, atol=2e-45)


@pytest.mark.parametrize("ord", [*MATRIX_ORDS, *BY_SINGULAR_VALUES])
def test_matrices(ord: Any) -> None:
    a = randn(2, 4, 5, 3)
    for dim in ((-2, -1), (0, 2), (3, 1)):
        for keepdim in (False, True):
            check(lambda linalg, dim=dim, keepdim=keepdim: linalg.matrix_norm(a, ord, dim, keepdim))
    check(lambda linalg: linalg.norm(a[0, 0], ord))
    check(lambda linalg: linalg.norm(a, ord, (1, 0)))
    if ord not in (-1, -2):
        check(lambda linalg: linalg.matrix_norm(torch.zeros(3, 0), ord))


def test_norm_chooses() -> None:
    a = randn(2, 3, 4)
    check(lambda linalg: linalg.norm(a))
    check(lambda linalg: linalg.norm(a, keepdim=True))
    check(lambda linalg: linalg.norm(a, dim=(0, 1)))
    check(lambda linalg: linalg.norm(a, 3, 1))
    check(lambda linalg: linalg.norm(a[0, 0], 1))
    for arguments in ((a, 2), (a, "fro"), (a, 2, (0, 1, 2)), (a, None, ()), (a[0], "x"), (a[0], 3), (a[0, 0], "fro")):
        for linalg in (metalcore.linalg, torch.linalg):
            with pytest.raises((ArgumentError, RuntimeError)):
                linalg.norm(*arguments)


def test_dtypes() -> None:
    x = randn(3, 4)
    for dtype in (torch.float16, torch.bfloat16):
        low = x.to(dtype)
        found = metalcore.linalg.vector_norm(low, dim=1)
        assert found.dtype == dtype
        torch.testing.assert_close(found, torch.linalg.vector_norm(low.float(), dim=1).to(dtype), rtol=1e-2, atol=0)
        check(lambda linalg, low=low: linalg.vector_norm(low, dim=1, dtype=torch.float32))
        check(lambda linalg, low=low: linalg.matrix_norm(low, 1, dtype=torch.float32))
    assert metalcore.linalg.norm(np.ones((2, 3), np.float16), 1, dtype=np.float32).dtype == np.float32
    with pytest.raises(ArgumentError, match="dtype must be"):
        metalcore.linalg.vector_norm(x, dtype=torch.float16)


@pytest.mark.parametrize("ord", [2, 1, math.inf, 3])
def test_gradients_are_those_of_torch(ord: float) -> None:
    x = randn(2, 3, 5)
    x[0, 0, 0] = 0
    x[1] = 0.5  # all of them are the largest
    x.requires_grad_()
    for dim in (None, -1, 1, (0, 2)):
        found = [torch.autograd.grad(linalg.vector_norm(x, ord, dim).square().sum(), x)[0] for linalg in BOTH]
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)
    zero = torch.zeros(3, requires_grad=True)
    assert torch.equal(torch.autograd.grad(metalcore.linalg.vector_norm(zero, ord), zero)[0], torch.zeros(3))


BOTH = (metalcore.linalg, torch.linalg)


@pytest.mark.sweep
def test_gradcheck() -> None:
    a = randn(3, 4, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: metalcore.linalg.vector_norm(a, 2, 1), a)
    assert torch.autograd.gradcheck(lambda a: metalcore.linalg.vector_norm(a, 3, 0), a)
    assert torch.autograd.gradcheck(lambda a: metalcore.linalg.matrix_norm(a, 1), a)


@pytest.mark.parametrize(
    "route",
    ["apple", pytest.param("mps text", marks=pytest.mark.sweep), pytest.param("mlx text", marks=pytest.mark.sweep)],
)
def test_routes(route: str) -> None:
    makers: dict[str, Any] = {
        "apple": lambda: CpuRuntime(TorchArrays(), "apple"),
        "mps text": text_mps,
        "mlx text": text_mlx,
    }
    run = makers[route]()
    x = randn(3, 40, 5)
    given: Any = x
    if route == "mlx text":
        import mlx.core as mx

        given = mx.array(x.numpy())
    for dims in ((1,), (1, 2)):
        (found,) = forward(run, given, 2.0, dims, False)
        np.testing.assert_allclose(np.asarray(found), torch.linalg.vector_norm(x, 2, dims).numpy(), rtol=1e-5)


def test_in_torch_programs() -> None:
    x = randn(3, 4, 5).requires_grad_()
    torch.library.opcheck(torch.ops.metalcore.linalg_vector_norm.default, (x, 2.0, [0, 2], False))
    compiled = torch.compile(lambda x: metalcore.linalg.norm(x, 1, dim=(0, 1)), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), torch.linalg.norm(x, 1, dim=(0, 1)))


@pytest.mark.sweep
def test_sanitized() -> None:
    x = randn(3, 4, 5).requires_grad_()
    with metalcore.mode("sanitize") as report:
        for ord in (2, math.inf, 3):
            for dim in (1, 2, (0, 2)):
                metalcore.linalg.vector_norm(x, ord, dim).sum().backward()
        forward(CpuRuntime(TorchArrays(), "apple"), randn(3, 100), 2.0, (1,), False)
    assert not report


def test_bad_arguments() -> None:
    x = randn(3, 4)
    calls = (
        lambda: metalcore.linalg.vector_norm(x, "fro"),
        lambda: metalcore.linalg.vector_norm(x, None),
        lambda: metalcore.linalg.vector_norm(x, dim=5),
        lambda: metalcore.linalg.vector_norm(x, dim=(0, 0)),
        lambda: metalcore.linalg.vector_norm(x.int()),
        lambda: metalcore.linalg.vector_norm(torch.zeros(3, 0), math.inf, 1),
        lambda: metalcore.linalg.vector_norm(torch.zeros(3, 0), -1, 1),
        lambda: metalcore.linalg.matrix_norm(x[0]),
        lambda: metalcore.linalg.matrix_norm(x, 3),
        lambda: metalcore.linalg.matrix_norm(x, dim=0),
        lambda: metalcore.linalg.matrix_norm(x, dim=(0, -2)),
        lambda: metalcore.linalg.matrix_norm(torch.zeros(3, 0), -1),
    )
    for call in calls:
        with pytest.raises(ArgumentError, match=r"linalg\.\w+: \w+ must be"):
            call()
    assert torch.equal(metalcore.linalg.vector_norm(torch.zeros(3, 0), 2, 1), torch.zeros(3))

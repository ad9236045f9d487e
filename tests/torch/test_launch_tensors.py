"""Launches with torch tensors: what C binds at once and what it leaves to Python, by both ways to launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import metalcore  # noqa: E402
from metalcore.errors import MetalcoreError  # noqa: E402

SOURCE = """#include <metal_stdlib>
using namespace metal;
kernel void twice(device const float* x, device float* y, uint i [[thread_position_in_grid]]) { y[i] = 2 * x[i]; }
kernel void halves(device const bfloat* x, device half* y, uint i [[thread_position_in_grid]]) { y[i] = half(x[i]); }
kernel void scaled(device const int* x, device int* y, constant int& by, constant float& more,
    uint i [[thread_position_in_grid]]) { y[i] = x[i] * by + int(more); }
"""
LIBRARY = metalcore.Library(SOURCE)
SHADERS = metalcore.compile_shader(SOURCE)
WAYS: dict[str, Callable[..., Any]] = {
    "Library": lambda name, *arguments, threads: LIBRARY.function(name)(*arguments, threads=threads),
    "compile_shader": lambda name, *arguments, threads: getattr(SHADERS, name)(*arguments, threads=threads),
}


def resized(size: int) -> Any:
    x = torch.arange(8.0)
    x.untyped_storage().resize_(size)
    return x


def fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(4)


@pytest.fixture(params=list(WAYS))
def launch(request: pytest.FixtureRequest) -> Callable[..., Any]:
    run = WAYS[request.param]
    run("twice", torch.ones(1), torch.zeros(1), threads=1)  # from the second one on C does it
    return run


@pytest.mark.parametrize(
    "x",
    [
        torch.arange(4.0),
        torch.arange(9.0)[2:6],
        torch.nn.Parameter(torch.arange(4.0)),
        torch.arange(4.0, requires_grad=True),
        torch.arange(4.0).reshape(2, 1, 2),
        np.arange(4, dtype=np.float32),
        np.arange(9, dtype=np.float32)[3:7],
    ],
    ids=["plain", "view", "parameter", "gradient", "shaped", "numpy", "numpy view"],
)
def test_values(launch: Callable[..., Any], x: Any) -> None:
    y = torch.zeros(4)
    for _ in range(3):
        y.zero_()
        launch("twice", x, y, threads=4)
        expected = 2 * np.asarray(x.detach() if isinstance(x, torch.Tensor) else x).ravel()
        np.testing.assert_array_equal(y.numpy(), expected)


def test_types_and_numbers(launch: Callable[..., Any]) -> None:
    x, y = torch.tensor([1.5, -2.0, 0.25]).bfloat16(), torch.zeros(3, dtype=torch.float16)
    launch("halves", x, y, threads=3)
    assert y.tolist() == [1.5, -2.0, 0.25]
    z = torch.zeros(3, dtype=torch.int32)
    launch("scaled", torch.tensor([1, 2, 3], dtype=torch.int32), z, -3, 2.75, threads=3)
    assert z.tolist() == [-1, -4, -7]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch._neg_view(torch.arange(4.0)), "negati"),
        (lambda: torch.eye(2).to_sparse(), "sparse"),
        (lambda: torch.empty(4, device="meta"), "meta"),
        (lambda: resized(8), "resized"),
        (lambda: resized(0), "resized"),
        (lambda: torch.arange(2.0), "out of bounds"),
        (lambda: torch.empty(0), "out of bounds"),
        (fake, "no memory"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(2)]), "nested"),
    ],
    ids=["negated", "sparse", "meta", "cut", "freed", "short", "empty", "fake", "nested"],
)
def test_what_has_no_such_memory_is_refused(launch: Callable[..., Any], make: Callable[[], Any], words: str) -> None:
    with pytest.raises(MetalcoreError, match=words):
        launch("twice", make(), torch.zeros(8), threads=8)


def test_declared_types_are_compared_by_the_library_alone() -> None:
    x = torch.tensor([1, 2], dtype=torch.int32)
    with pytest.raises(MetalcoreError, match="float32"):
        LIBRARY.function("twice")(x, torch.zeros(2), threads=2)
    y = torch.zeros(2)
    SHADERS.twice(x.view(torch.float32).view(torch.int32), y, threads=2)  # bits are bits, as with torch
    torch.testing.assert_close(y, 2 * x.view(torch.float32))


def test_a_read_only_array_is_not_written(launch: Callable[..., Any]) -> None:
    y = np.zeros(4, np.float32)
    y.flags.writeable = False
    with pytest.raises(MetalcoreError, match="read-only"):
        launch("twice", torch.ones(4), y, threads=4)
    assert not y.any()

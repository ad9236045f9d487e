"""What a kernel reaches of a view: with compile_shader the rest of its storage, as on a Mac, else its own elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError, KernelFault

READ = "kernel void read(device const float* x, device float* y, uint i [[thread_position_in_grid]]) { y[i] = x[i]; }"
MEMORIES = {"torch": lambda: torch.arange(4096.0), "numpy": lambda: np.arange(4096, dtype=np.float32)}


def _shader(x: Any, n: int) -> list[float]:
    y = np.zeros(n, np.float32)
    metalcore.compile_shader(READ).read(x, y, threads=n)
    return list(y.tolist())


def _kernel(x: Any, n: int) -> list[float]:
    kernel = metalcore.metal_kernel("read", ["x"], ["y"], "uint i = thread_position_in_grid.x; y[i] = x[i];")
    sizes = {"grid": (n, 1, 1), "threadgroup": (n, 1, 1)}
    return list(kernel(inputs=[x], output_shapes=[(n,)], output_dtypes=[x.dtype], **sizes)[0].tolist())


@pytest.mark.parametrize("framework", MEMORIES)
@pytest.mark.parametrize("route", [_shader, _kernel])
def test_an_empty_view_binds_nothing(route: Any, framework: str) -> None:
    for mode in ("checked", "sanitize"):
        with metalcore.mode(mode) as report:
            if mode == "checked":
                with pytest.raises(KernelFault, match="'x'"):
                    route(MEMORIES[framework]()[100:100], 4)
            else:
                assert route(MEMORIES[framework]()[100:100], 4) == [0] * 4
                assert report.findings


@pytest.mark.parametrize("framework", MEMORIES)
def test_compile_shader_reaches_the_rest_of_the_storage(framework: str) -> None:
    assert _shader(MEMORIES[framework]()[4090:4092], 6) == [4090, 4091, 4092, 4093, 4094, 4095]
    with pytest.raises(KernelFault, match="index 6, the size is 6"):
        _shader(MEMORIES[framework]()[4090:4092], 7)


@pytest.mark.parametrize("framework", MEMORIES)
def test_metal_kernel_reaches_the_view_alone(framework: str) -> None:
    view = MEMORIES[framework]()[100:120]
    assert _kernel(view, 20) == list(range(100, 120))
    with pytest.raises(KernelFault, match="index 20, the size is 20"):
        _kernel(view, 21)


@pytest.mark.parametrize("route", [_shader, _kernel])
@pytest.mark.parametrize("room", [0, 8])
def test_a_storage_that_was_resized(route: Any, room: int) -> None:
    x = torch.ones(4096)
    tail = x[4000:]
    x.untyped_storage().resize_(room)
    for tensor, held in ((x, room), (tail, 0)):
        with pytest.raises(ArgumentError, match=f"whose storage was resized and holds {held} of them"):
            route(tensor, 4)

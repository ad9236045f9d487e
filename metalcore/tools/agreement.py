"""One Metal kernel by every way that this machine has: the engine, torch.mps and MLX. Which of them agree?

The first thing to ask on a Mac. What goes to a GPU here has not yet run on one; the tests call the same functions with
the engine's own `compile_shader` and `metal_kernel`, which have the rules of PyTorch's and MLX's.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

SIZE, GROUP = 1024, 256
TOLERANCE = 1e-5  # of floats, relative: compilers for GPUs may use fast math
# Floats by exp, rsqrt and a sum over a simdgroup; whole numbers by a barrier and threadgroup memory.
BODY = """
  threadgroup uint kept[256];
  uint i = thread_position_in_grid.x, t = thread_position_in_threadgroup.x;
  kept[t] = i * 2654435761u;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  n[i] = kept[255 - t] ^ reverse_bits(i);
  y[i] = x[i] * rsqrt(simd_sum(x[i] * x[i]) / 32 + 1e-6f) + exp(-x[i]);
"""
SOURCE = f"""#include <metal_stdlib>
using namespace metal;
kernel void agree(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], device uint* n [[buffer(2)]],
                  uint3 thread_position_in_grid [[thread_position_in_grid]],
                  uint3 thread_position_in_threadgroup [[thread_position_in_threadgroup]]) {{{BODY}}}
"""


class NotThere(Exception):
    """This machine does not have that way; the text says what is missing."""


@dataclass(frozen=True)
class Result:
    """What a kernel wrote."""

    floats: Any
    integers: Any


def given() -> Any:
    return np.random.default_rng(0).uniform(-2, 2, SIZE).astype(np.float32)


def by_numpy() -> Result:
    x, i = given().astype(np.float64), np.arange(SIZE, dtype=np.uint32)
    sums = np.repeat((x * x).reshape(-1, 32).sum(1), 32)
    other = i // GROUP * GROUP + (GROUP - 1 - i % GROUP)  # the thread whose number this one reads
    reverse = np.array([int(f"{value:032b}"[::-1], 2) for value in i.tolist()], np.uint32)
    integers = (other.astype(np.uint64) * 2654435761).astype(np.uint32) ^ reverse
    return Result(x / np.sqrt(sums / 32 + 1e-6) + np.exp(-x), integers)


def by_engine() -> Result:
    import metalcore

    y, n = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.uint32)
    metalcore.Library(SOURCE).function("agree")(given(), y, n, threads=SIZE, group_size=GROUP)
    return Result(y, n)


def by_torch(compile_shader: Callable[[str], Any], device: str) -> Result:
    import torch

    x = torch.from_numpy(given()).to(device)
    y = torch.zeros(SIZE, dtype=torch.float32, device=device)
    n = torch.zeros(SIZE, dtype=torch.int32, device=device)
    compile_shader(SOURCE).agree(x, y, n, threads=SIZE, group_size=GROUP)
    return Result(y.cpu().numpy(), n.cpu().numpy().view(np.uint32))


def by_mlx(metal_kernel: Callable[..., Any]) -> Result:
    import mlx.core as mx

    kernel = metal_kernel(name="agree", input_names=["x"], output_names=["y", "n"], source=BODY)
    y, n = kernel(
        inputs=[mx.array(given())],
        grid=(SIZE, 1, 1),
        threadgroup=(GROUP, 1, 1),
        output_shapes=[(SIZE,), (SIZE,)],
        output_dtypes=[mx.float32, mx.uint32],
    )
    return Result(np.array(y), np.array(n))


def on_torch_mps() -> Result:
    if importlib.util.find_spec("torch") is None:
        raise NotThere("torch is not installed")
    import torch

    if not torch.backends.mps.is_available():
        raise NotThere("torch finds no MPS device")
    if not hasattr(torch.mps, "compile_shader"):
        raise NotThere(f"torch {version('torch')} has no torch.mps.compile_shader; 2.6 has")
    return by_torch(torch.mps.compile_shader, "mps")


def on_mlx() -> Result:
    if importlib.util.find_spec("mlx") is None:
        raise NotThere("mlx is not installed")
    import mlx.core as mx

    if not mx.metal.is_available():
        raise NotThere("mlx finds no Metal device")
    return by_mlx(mx.fast.metal_kernel)


WAYS: Mapping[str, Callable[[], Result]] = {"engine": by_engine, "torch.mps": on_torch_mps, "MLX": on_mlx}


def difference(a: Result, b: Result) -> tuple[float, int]:
    """The largest one of floats, relative to the larger of 1 and the value, and how many whole numbers differ."""
    left, right = np.asarray(a.floats, np.float64), np.asarray(b.floats, np.float64)
    apart = np.abs(left - right) / np.maximum(1, np.abs(right))
    worst = float(apart.max()) if np.isfinite(apart).all() else float("inf")
    return worst, int(np.count_nonzero(np.asarray(a.integers) != np.asarray(b.integers)))


def agree(a: Result, b: Result) -> bool:
    floats, integers = difference(a, b)
    return floats <= TOLERANCE and integers == 0


def report(results: Mapping[str, Result]) -> tuple[bool, str]:
    """Which of these agree, in words; the first of *results* is what the others are held against."""
    names, said = list(results), []
    if len(names) < 2:
        return False, "no way has run the kernel"
    first = results[names[0]]
    for name in names[1:]:
        floats, integers = difference(results[name], first)
        if agree(results[name], first):
            said.append(f"{name} agrees with {names[0]} ({floats:.1e})")
            continue
        others = [other for other in names[1:] if other != name and agree(results[name], results[other])]
        same = f", as {' and '.join(others)} does" if others else ""
        said.append(f"{name} differs from {names[0]}{same}: floats by {floats:.1e}, {integers} of {SIZE} whole numbers")
    return all(agree(results[name], first) for name in names[1:]), "; ".join(said)

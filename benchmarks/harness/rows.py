"""Every row of the table: elementwise, row operations, reductions, sort and matrix products."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import metalcore
from harness import opencl
from harness.case import Call, Case, Setup, aligned, filled
from harness.peers import Peers

KERNELS = Path(__file__).resolve().parent.parent / "kernels"
GROUP = 1024  # threads of an elementwise threadgroup: the default of torch.mps.compile_shader
ROW_GROUP = 32  # one simdgroup a row: what suits a CPU
GPU_ROW_GROUP = 256  # what one would use on a GPU
EPS = 1e-5


@functools.cache
def library(file: str) -> metalcore.Library:
    return metalcore.Library(KERNELS / file)


def kernel(file: str, name: str) -> Any:
    return library(file).function(name)


def tensor(array: Any, *shape: int) -> Any:
    import torch

    return torch.from_numpy(array).view(*(shape or array.shape))


# Elementwise ------------------------------------------------------------------------------------------------------


def _saxpy(count: int, peers: Peers) -> Setup:
    import torch

    x, start, y, a = filled(count, 1), filled(count, 2), aligned(count), 1.5
    return Setup(
        output=y,
        reference=a * x.astype(np.float64) + start,
        tolerance=2e-6,
        traffic=12 * count,
        ours=partial(kernel("elementwise.metal", "saxpy"), x, y, a, threads=count, group_size=GROUP),
        cpp=lambda threads: peers.bind("saxpy", threads, x, y, a, count),
        torch=lambda: partial(torch.add, tensor(y), tensor(x), alpha=a, out=tensor(y)),
        opencl=lambda: opencl.bind("elementwise.cl", "saxpy", (count,), GROUP, x, y, np.float32(a)),
        reset=lambda: np.copyto(y, start),
    )


def _unary(name: str, count: int, peers: Peers) -> Setup:
    import torch

    x, y = filled(count, 3), aligned(count)
    wide = x.astype(np.float64)
    if name == "silu":
        reference = wide / (1 + np.exp(-wide))
        torch_call = partial(torch.ops.aten.silu.out, tensor(x), out=tensor(y))
    else:
        reference = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
        torch_call = partial(torch.ops.aten.gelu.out, tensor(x), approximate="tanh", out=tensor(y))
    return Setup(
        output=y,
        reference=reference,
        tolerance=2e-6,
        traffic=8 * count,
        ours=partial(kernel("elementwise.metal", name), x, y, threads=count, group_size=GROUP),
        cpp=lambda threads: peers.bind(name, threads, x, y, count),
        torch=lambda: torch_call,
        opencl=lambda: opencl.bind("elementwise.cl", name, (count,), GROUP, x, y),
    )


# Rows -------------------------------------------------------------------------------------------------------------


def _norm(name: str, rows: int, n: int, group: int, peers: Peers) -> Setup:
    import torch

    x, w, b, y = filled(rows * n, 4), filled(n, 5), filled(n, 6), aligned(rows * n)
    wide = x.astype(np.float64).reshape(rows, n)
    tx, tw, tb, ty = tensor(x, rows, n), tensor(w), tensor(b), tensor(y, rows, n)
    grid: dict[str, Any] = {"threadgroups": rows, "group_size": group}
    functions = "norm.metal"
    arrays: tuple[Any, ...]
    scalars: tuple[float, ...] = (EPS,)
    if name == "rms_norm":
        reference = wide / np.sqrt((wide**2).mean(1, keepdims=True) + EPS) * w
        arrays = (x, w, y)
        torch_call = partial(torch.nn.functional.rms_norm, tx, (n,), tw, EPS)
    elif name == "layer_norm":
        centred = wide - wide.mean(1, keepdims=True)
        reference = centred / np.sqrt((centred**2).mean(1, keepdims=True) + EPS) * w + b
        arrays = (x, w, b, y)
        mean, scale = torch.empty(rows, 1), torch.empty(rows, 1)
        torch_call = partial(
            torch.ops.aten.native_layer_norm.out, tx, (n,), tw, tb, EPS, out0=ty, out1=mean, out2=scale
        )
    else:
        shifted = np.exp(wide - wide.max(1, keepdims=True))
        reference = shifted / shifted.sum(1, keepdims=True)
        arrays, scalars = (x, y), ()
        torch_call = partial(torch.softmax, tx, 1, out=ty)

    def copied() -> None:
        ty.copy_(torch_call())

    # rms_norm has no out=: for the check its result is copied, for the clock it is not.
    torch_check: Call = copied if name == "rms_norm" else torch_call
    return Setup(
        output=y,
        reference=reference,
        tolerance=1e-5 if name != "softmax" else 2e-6,
        traffic=8 * rows * n,
        ours=partial(kernel(functions, name), *arrays, n, *scalars, **grid),
        cpp=lambda threads: peers.bind(name, threads, *arrays, rows, n, *scalars),
        torch=lambda: torch_call,
        torch_check=lambda: torch_check,
        opencl=lambda: opencl.bind(
            "norm.cl", name, (rows * GPU_ROW_GROUP,), GPU_ROW_GROUP, *arrays, np.uint32(n), *map(np.float32, scalars)
        ),
    )


def _row_reduce(name: str, rows: int, n: int, group: int, peers: Peers) -> Setup:
    import torch

    x = filled(rows * n, 7)
    wide = x.astype(np.float64).reshape(rows, n)
    tx = tensor(x, rows, n)
    if name == "row_sum":
        y, reference, traffic = aligned(rows), wide.sum(1), 4 * rows * (n + 1)
        torch_call = partial(torch.sum, tx, 1, out=tensor(y))
    else:
        y, reference, traffic = aligned(rows * n), wide.cumsum(1), 8 * rows * n
        torch_call = partial(torch.cumsum, tx, 1, out=tensor(y, rows, n))
    return Setup(
        output=y,
        reference=reference,
        tolerance=2e-6,
        traffic=traffic,
        ours=partial(kernel("reduce.metal", name), x, y, n, threadgroups=rows, group_size=group),
        cpp=lambda threads: peers.bind(name, threads, x, y, rows, n),
        torch=lambda: torch_call,
        opencl=lambda: opencl.bind("reduce.cl", name, (rows * GPU_ROW_GROUP,), GPU_ROW_GROUP, x, y, np.uint32(n)),
        scale=float(np.abs(wide).sum(1).max()) / 8,
    )


def _full_sum(count: int, peers: Peers) -> Setup:
    import torch

    chunk = 1 << 14
    chunks = -(-count // chunk)
    x, partials, out = filled(count, 8), aligned(chunks), aligned(1)
    step = kernel("reduce.metal", "chunk_sum")
    tx, tout = tensor(x), tensor(out).reshape(())

    def ours() -> None:
        step(x, partials, count, chunk, threadgroups=chunks, group_size=ROW_GROUP)
        step(partials, out, chunks, chunks, threadgroups=1, group_size=ROW_GROUP)

    def bind_opencl() -> Any:
        group = GPU_ROW_GROUP
        sizes = np.uint32(count), np.uint32(chunk)
        first = opencl.bind("reduce.cl", "chunk_sum", (chunks * group,), group, x, partials, *sizes)
        sizes = np.uint32(chunks), np.uint32(chunks)
        second = opencl.bind("reduce.cl", "chunk_sum", (group,), group, partials, out, *sizes)
        return (lambda: (first(), second())) if first and second else None

    return Setup(
        output=out,
        reference=np.array([x.astype(np.float64).sum()]),
        tolerance=1e-5,
        traffic=4 * count,
        ours=ours,
        cpp=lambda threads: peers.bind("full_sum", threads, x, partials, out, count, chunk),
        torch=lambda: partial(torch.sum, tx, dim=(), out=tout),
        opencl=bind_opencl,
        scale=math.sqrt(count),
    )


def _sort(blocks: int, peers: Peers) -> Setup:
    import torch

    size = 1024
    x, y = filled(blocks * size, 9), aligned(blocks * size)
    indices = torch.empty(blocks, size, dtype=torch.int64)
    return Setup(
        output=y,
        reference=np.sort(x.reshape(blocks, size), axis=1).astype(np.float64),
        tolerance=0.0,
        traffic=8 * blocks * size,
        ours=partial(kernel("sort.metal", "bitonic_sort"), x, y, threadgroups=blocks, group_size=size),
        cpp=lambda threads: peers.bind("bitonic_sort", threads, x, y, blocks),
        torch=lambda: partial(torch.sort, tensor(x, blocks, size), dim=1, out=(tensor(y, blocks, size), indices)),
        opencl=lambda: opencl.bind("sort.cl", "bitonic_sort", (blocks * size,), size, x, y),
    )


def _gemm(name: str, n: int, peers: Peers) -> Setup:
    import torch

    a, b, c = filled(n * n, 10, -1, 1), filled(n * n, 11, -1, 1), aligned(n * n)
    if name == "gemm_tiled":
        grid: dict[str, Any] = {"threadgroups": (n // 32, n // 32), "group_size": (32, 16)}
    else:
        grid = {"threadgroups": (n // 64, n // 64), "group_size": (128, 1)}
    return Setup(
        output=c,
        reference=a.reshape(n, n).astype(np.float64) @ b.reshape(n, n).astype(np.float64),
        tolerance=1e-4,
        traffic=12 * n * n,
        ours=partial(kernel("gemm.metal", name), a, b, c, n, n, **grid),
        cpp=lambda threads: peers.bind("gemm", threads, a, b, c, n, n, n),
        torch=lambda: partial(torch.mm, tensor(a, n, n), tensor(b, n, n), out=tensor(c, n, n)),
        opencl=lambda: (
            None
            if name == "gemm_simdgroup"
            else opencl.bind("gemm.cl", name, (n, n // 2), (32, 16), a, b, c, np.uint32(n), np.uint32(n))
        ),
    )


# The table --------------------------------------------------------------------------------------------------------


def ordered() -> tuple[dict[str, Any], Peers, list[Case]]:
    """In a benchmark's process: what it is told to do, the peers, and the rows that it is about."""
    order = json.loads(sys.stdin.read())
    wanted = {case.key: case for case in cases()}
    return order, Peers(Path(order["library"])), [wanted[key] for key in order["keys"]]


def chosen(only: Sequence[str], quick: bool) -> list[Case]:
    """Rows whose name contains one of these texts, where there are any; with `quick` the small sizes alone."""
    return [c for c in cases() if (not only or any(text in c.key for text in only)) and (c.quick or not quick)]


def cases() -> list[Case]:
    """Every row. Those without a target are shown beside the others."""
    table = []
    for name in ("saxpy", "silu", "gelu"):
        for count in (1 << 20, 1 << 24, 1 << 26):
            make = partial(_saxpy, count) if name == "saxpy" else partial(_unary, name, count)
            small = count == 1 << 20
            table.append(
                Case(name, f"{count >> 20} M", make, 0.9, 1.0, memory_light=small and name == "gelu", quick=small)
            )
    for name in ("rms_norm", "layer_norm", "softmax"):
        for rows, n in ((64, 4096), (1024, 1024), (4096, 4096), (1000, 1000)):
            target, small = 2.0 if name == "rms_norm" else 1.0, rows * n < 1 << 22
            make = partial(_norm, name, rows, n, ROW_GROUP)
            table.append(Case(name, f"{rows}x{n}", make, 0.8, target, quick=small))
        make = partial(_norm, name, 1024, 1024, GPU_ROW_GROUP)
        table.append(Case(name, f"1024x1024, {GPU_ROW_GROUP} threads", make, 0.8, None))
    for name in ("row_sum", "row_scan"):
        for rows, n in ((1024, 1024), (4096, 4096)):
            make = partial(_row_reduce, name, rows, n, ROW_GROUP)
            table.append(Case(name, f"{rows}x{n}", make, 0.5, None, quick=rows == 1024))
        make, target = partial(_row_reduce, name, 1024, 1024, GPU_ROW_GROUP), 0.8 if name == "row_sum" else 0.5
        table.append(Case(name, f"1024x1024, {GPU_ROW_GROUP} threads", make, target, None))
    for count in (1 << 20, 1 << 24):
        table.append(Case("full_sum", f"{count >> 20} M", partial(_full_sum, count), 0.5, None, quick=count == 1 << 20))
    table.append(Case("bitonic_sort", "1024x1024", partial(_sort, 1024), 0.8, None, memory_light=True))
    table.append(Case("gemm_tiled", "1024^3", partial(_gemm, "gemm_tiled", 1024), 0.9, None, memory_light=True))
    table.append(Case("gemm_simdgroup", "1024^3", partial(_gemm, "gemm_simdgroup", 1024), 0.9, 0.25, memory_light=True))
    order = ["saxpy", "silu", "gelu", "rms_norm", "layer_norm", "softmax", "row_sum", "full_sum", "row_scan"]
    return sorted(table, key=lambda case: order.index(case.kernel) if case.kernel in order else len(order))

"""A program: the cost of a warm launch with four arrays by each way to launch, as a line of JSON with seconds.

`python launches.py elementwise.metal`. A way whose framework is not installed is left out.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import metalcore

SIZE, CALLS, ROUNDS = 32, 250, 40


def numpy_way(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A call, and what it has computed."""
    tiny = metalcore.Library(path).function("tiny")
    a, b, c, out = (np.ones(SIZE, np.float32) for _ in range(4))
    return lambda: tiny(a, b, c, out, threads=SIZE, group_size=SIZE), lambda: out


def torch_way(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import torch

    tiny = metalcore.Library(path).function("tiny")
    a, b, c, out = (torch.ones(SIZE) for _ in range(4))
    return lambda: tiny(a, b, c, out, threads=SIZE, group_size=SIZE), out.numpy


def shader_way(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import torch

    with open(path, encoding="utf-8") as file:
        tiny = metalcore.compile_shader(file.read()).tiny
    a, b, c, out = (torch.ones(SIZE) for _ in range(4))
    return lambda: tiny(a, b, c, out, threads=SIZE, group_size=SIZE), out.numpy


def mlx_way(path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import mlx.core as mx

    source = "uint i = thread_position_in_grid.x; out[i] = a[i] * b[i] + c[i];"
    tiny = metalcore.metal_kernel(name="tiny", input_names=["a", "b", "c"], output_names=["out"], source=source)
    a, b, c = (mx.ones(SIZE) for _ in range(3))
    mx.eval(a, b, c)

    def call() -> Any:
        return tiny(
            inputs=[a, b, c],
            output_shapes=[(SIZE,)],
            output_dtypes=[mx.float32],
            grid=(SIZE, 1, 1),
            threadgroup=(SIZE, 1, 1),
        )

    return call, lambda: np.array(call()[0])


WAYS = {
    "launch": ("numpy", numpy_way),
    "launch torch": ("torch", torch_way),
    "launch compile_shader": ("torch", shader_way),
    "launch metal_kernel": ("mlx", mlx_way),
}


def main() -> None:
    ready = {
        name: way(sys.argv[1]) for name, (module, way) in WAYS.items() if importlib.util.find_spec(module) is not None
    }
    samples: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(ROUNDS):  # one after the other, so that all see the same machine
        for name, (call, _) in ready.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            samples[name].append((time.perf_counter() - start) / CALLS)
    for name, (_, found) in ready.items():
        assert (np.asarray(found()) == 2).all(), name
    print(json.dumps({name: statistics.median(times) for name, times in samples.items()}))


if __name__ == "__main__":
    main()

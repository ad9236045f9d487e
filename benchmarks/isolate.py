"""What `metalcore.isolate()` costs a launch: the same kernel here and in the worker, each result verified first.

python benchmarks/isolate.py [--repeats 2000]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import metalcore

SOURCE = """
kernel void axpy(device float* y, device const float* x, constant float& a, uint i [[thread_position_in_grid]]) {
  y[i] = a * x[i] + y[i];
}
"""
GROUP = 256
BLOCK = 25


def timed(calls: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median microseconds of each call; they take turns in blocks, so that other work on the machine meets all."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(max(1, repeats // BLOCK)):
        for call, own in zip(calls, times, strict=True):
            time.sleep(0.002)  # the threads of the call before have gone to sleep
            call()
            for _ in range(BLOCK):
                started = time.perf_counter()
                call()
                own.append(time.perf_counter() - started)
    return [statistics.median(own) * 1e6 for own in times]


def verified(function: Any, y: Any, x: Any) -> None:
    x[:] = np.arange(x.size) % 97
    y[:] = 1
    function(y, x, 2.0, threads=x.size, group_size=GROUP)
    if not (y == 2 * x + 1).all():
        raise SystemExit("the result is wrong: nothing was timed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2000)
    repeats = parser.parse_args().repeats
    here = metalcore.Library(SOURCE, isolate=False).function("axpy")
    started = time.perf_counter()
    with metalcore.isolate() as isolation:
        entered = time.perf_counter()
        there = metalcore.Library(SOURCE).function("axpy")
        compiled = time.perf_counter()
        verified(there, np.zeros(256, np.float32), np.zeros(256, np.float32))
        ready = time.perf_counter()
        print("\n".join(f"{name}: {how}" for name, how in isolation.means.items()))
        print(
            f"\nserver started in {1e3 * (entered - started):.0f} ms, compiled in {1e3 * (compiled - entered):.0f} ms, "
            f"worker started and first launch in {1e3 * (ready - compiled):.0f} ms\n"
        )
        print(
            "| elements | here | here, shared arrays | isolated, shared arrays | beside the kernel | isolated, copied |"
        )
        print("|--:|--:|--:|--:|--:|--:|")
        for n in (256, 1 << 14, 1 << 18, 1 << 22):
            plain, shared = [[make(n) for _ in range(2)] for make in (_zeros, metalcore.shared_array)]
            calls: list[Callable[[], object]] = []
            for function, arrays in ((here, plain), (here, shared), (there, shared), (there, plain)):
                verified(function, *arrays)
                calls.append(partial(function, *arrays, 0.5, threads=n, group_size=GROUP))
            found = timed(calls, max(4 * BLOCK, repeats // max(1, n >> 14)))
            rows = [found[0], found[1], found[2], found[2] - found[1], found[3]]
            print(f"| {n} | " + " | ".join(f"{row:.1f} µs" for row in rows) + " |")


def _zeros(n: int) -> Any:
    return np.zeros(n, np.float32)


if __name__ == "__main__":
    main()

"""Memory and control flow where float is read as double: strides, gathers, private arrays, divergent loops."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault
from tests.engine.retype.helpers import close, library

SOURCE = """
struct item { half h; float f; uchar c; float2 v; };
kernel void walk(device const float* x, device const int* pick, device const item* items, device float* out,
    constant float& limit, constant uint& n, threadgroup float* shared [[threadgroup(0)]],
    uint i [[thread_position_in_grid]], uint lid [[thread_position_in_threadgroup]]) {
  float kept[5];
  for (uint k = 0; k < 5; k++) kept[k] = x[i * 3 + k % 3] * (k + 1);
  float sum = kept[pick[i] % 5];
  uint steps = 0;
  while (sum < limit) {
    sum += x[pick[(i + steps) % n]] * x[pick[(i + steps) % n]] + 0.01f;
    if (++steps == 40) break;
  }
  shared[lid] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  item it = items[i];
  float near = shared[lid ^ 1];
  if (i % 3 == 0) out[i * 2] = near * float(it.h) + it.f;
  else if (x[i] > 0) out[i * 2] = near - it.v.y;
  out[i * 2 + 1] = steps + 0.1f;
}
kernel void beyond(device const float* x, device float* y, uint i [[thread_position_in_grid]]) { y[i] = x[i + 1]; }
"""
ITEM = np.dtype(
    {"names": ["h", "f", "c", "v"], "formats": ["f2", "f8", "u1", ("f8", 2)], "offsets": [0, 8, 16, 32], "itemsize": 48}
)


def test_strides_gathers_and_divergence() -> None:
    rng, n = np.random.default_rng(9), 96
    x, pick = rng.standard_normal(3 * n), rng.integers(0, n, n).astype(np.int32)
    items = np.zeros(n, ITEM)
    items["h"], items["f"], items["v"] = rng.standard_normal(n), rng.standard_normal(n), rng.standard_normal((n, 2))
    limit, wanted, sums = 4.0, np.full(2 * n, 7.0), np.zeros(n)
    for i in range(n):
        k, steps = int(pick[i]) % 5, 0
        sum_ = x[3 * i + k % 3] * (k + 1)
        while sum_ < limit:
            sum_ += x[pick[(i + steps) % n]] ** 2 + 0.01
            steps += 1
            if steps == 40:
                break
        sums[i], wanted[2 * i + 1] = sum_, steps + 0.1
    for i in range(n):
        near = sums[i ^ 1]
        if i % 3 == 0:
            wanted[2 * i] = near * float(items["h"][i]) + items["f"][i]
        elif x[i] > 0:
            wanted[2 * i] = near - items["v"][i, 1]
    kernel = library(SOURCE).function("walk")
    for mode in ("checked", "fast"):
        out = np.full(2 * n, 7.0)
        with metalcore.mode(mode):
            kernel(x, pick, items, out, limit, n, threads=n, group_size=48, threadgroup_memory={0: 48 * 8})
        close(out, wanted, 1e-12)


def test_bounds_are_checked_in_elements_of_eight_bytes() -> None:
    x, y = np.arange(40.0), np.zeros(40)
    with pytest.raises(KernelFault, match="40"):
        library(SOURCE).function("beyond")(x, y, threads=40)
    assert y.tolist() == [*range(1, 40), 0]

"""Atomics that leave their buffer: reported, without effect, and never an endless loop."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault

EXCHANGE = """
#include <metal_stdlib>
using namespace metal;
kernel void k(device atomic_uint* a, uint i [[thread_position_in_grid]]) {
  uint old = atomic_load_explicit(&a[i], memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(
      &a[i], &old, old + i + 1, memory_order_relaxed, memory_order_relaxed)) {}
}
"""


def test_an_exchange_out_of_bounds_ends() -> None:
    kernel = metalcore.Library(EXCHANGE).function("k")
    values = np.zeros(40, np.uint32)
    with pytest.raises(KernelFault, match="a"):
        kernel(values[:33], threads=40, group_size=64)
    assert values.tolist() == [*range(1, 34), *[0] * 7]

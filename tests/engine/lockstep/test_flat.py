"""Threadgroups that make no difference are run as one long loop; nobody may notice."""

from __future__ import annotations

import re

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault

ADD_ONE = "kernel void k(device float* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"
# Long enough for data to be asked for early.
POLYNOMIAL = """kernel void k(device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
  float v = x[i];
  y[i] = ((((((v * 0.5f + 1) * v + 2) * v + 3) * v + 4) * v + 5) * v + 6) * v + 7;
}"""


@pytest.mark.parametrize("mode", ("checked", "fast"))
@pytest.mark.parametrize("group", (1, 31, 32, 33, 64, 96, 1000, 1024))
def test_every_thread_runs_once(group: int, mode: str) -> None:
    kernel = metalcore.Library(ADD_ONE).function("k")
    for threads in (0, 1, 31, 33, 65, 8191, 20011, 140000):
        x = np.zeros(threads + 1, np.float32)
        with metalcore.mode(mode):
            kernel(x, threads=threads, group_size=group)
        assert (x[:-1] == 1).all() and x[-1] == 0


@pytest.mark.parametrize("threads", (33, 4099, 100003))
def test_data_that_is_asked_for_early(threads: int) -> None:
    x = np.linspace(-1, 1, threads, dtype=np.float32)
    y = np.zeros_like(x)
    metalcore.Library(POLYNOMIAL).function("k")(x, y, threads=threads, group_size=256)
    want = np.polyval([0.5, 1, 2, 3, 4, 5, 6, 7], x.astype(np.float64))
    np.testing.assert_allclose(y, want, rtol=1e-6)


@pytest.mark.parametrize("group", (32, 64, 1024))
def test_a_fault_names_the_thread_and_not_its_place_in_the_loop(group: int) -> None:
    x = np.zeros(5000, np.float32)
    with pytest.raises(KernelFault, match=re.escape("by thread (5000, 0, 0) of the grid")):
        metalcore.Library(ADD_ONE).function("k")(x, threads=8192, group_size=group)
    assert (x == 1).all()


def test_a_kernel_that_knows_its_threadgroup_is_left_alone() -> None:
    source = """kernel void k(device uint* x, uint i [[thread_position_in_grid]],
        uint group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_threadgroup]]) {
      x[i] = group * 1000 + lane;
    }"""
    x = np.zeros(1000, np.uint32)
    metalcore.Library(source).function("k")(x, threads=1000, group_size=64)
    np.testing.assert_array_equal(x, np.arange(1000) // 64 * 1000 + np.arange(1000) % 64)

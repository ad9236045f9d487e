"""Matrices whose rows lie any distance apart: every one of them is inside, or a fault."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault

SOURCE = """#include <metal_stdlib>
using namespace metal;
kernel void load(device float* o, device const float* x, constant ulong& s) {
  simdgroup_float8x8 m; simdgroup_load(m, x, s); simdgroup_store(m, o, 8); }
kernel void store(device float* o, device const float* x, constant ulong& s) {
  simdgroup_float8x8 m; simdgroup_load(m, x, 8); simdgroup_store(m, o, s); }
kernel void load_half(device half* o, device const half* x, constant ulong& s) {
  simdgroup_half8x8 m; simdgroup_load(m, x, s); simdgroup_store(m, o, 8); }"""
# 7 rows times the size of an element times the stride comes back to the start, or close to it.
STRIDES = [2**64 // 28 + 1, 2**64 // 14 + 1, 2**64 // 7 + 1, 2**62 // 7, 2**60 - 1, 2**56, 2**64 - 8]


@pytest.mark.parametrize("name", ["load", "store", "load_half"])
@pytest.mark.parametrize("stride", STRIDES)
def test_a_stride_around_the_end_of_the_numbers_is_a_fault(stride: int, name: str) -> None:
    dtype = np.float16 if name == "load_half" else np.float32
    o, x = np.zeros(64, dtype), np.zeros(128, dtype)
    with pytest.raises(KernelFault):
        metalcore.Library(SOURCE).function(name)(o, x, stride, threads=32, group_size=32)
    with metalcore.mode("sanitize") as report:
        metalcore.Library(SOURCE).function(name)(o, x, stride, threads=32, group_size=32)
    assert any(finding.kind == "out-of-bounds" for finding in report.findings)

"""float -> bfloat: every upper half with lower halves around each tie, in full simdgroups and in a last, short one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import metalcore

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void narrow(device const float* x, device bfloat* y, constant uint& n, uint i [[thread_position_in_grid]]) {
  if (i < n) {
    y[i] = bfloat(x[i]);
  }
}
"""
LOWER = (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)


@pytest.mark.feature("math", "float to bfloat rounds to nearest even, keeps infinities, and NaN stays a quiet NaN")
@pytest.mark.parametrize("mode", ["fast", "checked"])
@pytest.mark.parametrize("short", [0, 13])
def test_every_upper_half(mode: str, short: int) -> None:
    upper = np.arange(65536, dtype=np.uint32) << 16
    bits = np.concatenate([upper | low for low in LOWER])[: 65536 * len(LOWER) - short]
    found = np.zeros(bits.size, ml_dtypes.bfloat16)
    function = metalcore.Library(SOURCE).function("narrow")
    with metalcore.mode(mode):
        function(bits.view(np.float32), found, bits.size, threads=bits.size, group_size=256)
    out = found.view(np.uint16)
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    rounded = (bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16
    assert np.array_equal(out[~is_nan], rounded[~is_nan])
    assert ((out[is_nan] & 0x7FC0) == 0x7FC0).all()

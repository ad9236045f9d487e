"""Private arrays under indices of 64 bits: those inside are read, those that scaling by 32 lanes would cut are not."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault

KERNEL = """
using namespace metal;
kernel void k(device uint* o, device const ulong* v, uint i [[thread_position_in_grid]]) {
  uint a[3]; for (uint j = 0; j < uint(v[64]); j++) a[j] = j * 77 + i;
  BODY
}
"""
BODIES = {
    "varying": "o[i] = a[v[i]];",
    "uniform": "o[i] = a[v[5]];",
    "in another block": "ulong at = v[i]; thread uint* p = a + at; if (v[64] == 3) o[i] = *p;",
    "behind a barrier": "thread uint* p = a + v[i]; threadgroup_barrier(mem_flags::mem_device); o[i] = *p;",
    "a sum": "o[i] = a[ulong(64u - i * 7u) + (v[i] - ulong(64u - i * 7u))];",
    "a walk": "thread uint* p = a; for (uint j = 0; j < 2; j++) p += j ? v[i] : 0; o[i] = *p;",
    "behind a loop": "thread uint* p = a; for (uint j = 0; j <= (i & 3); j++) p = a + v[(i & ~3u) + j]; o[i] = *p;",
}


@pytest.mark.parametrize("group", [64, 24])
@pytest.mark.parametrize("name", BODIES)
def test_indices_of_64_bits(name: str, group: int) -> None:
    function = metalcore.Library(KERNEL.replace("BODY", BODIES[name])).function("k")
    v = np.full(65, 1, np.uint64)
    v[64] = 3
    for mode in ("checked", "sanitize", "fast"):
        o = np.zeros(64, np.uint32)
        with metalcore.mode(mode) as report:
            function(o, v, threads=64, group_size=group)
        assert o.tolist() == (77 + np.arange(64)).tolist(), mode
        assert mode != "sanitize" or not report.findings
    # 2^57 elements of 4 bytes in 32 lanes are 2^64 bytes: nothing must be left of them by mistake
    for large in (1 << 57, (1 << 57) + 1, (1 << 59) + 2, (1 << 62) + 1, (1 << 64) - (1 << 57), 3, 1 << 40, 1 << 41):
        v[5] = large
        o = np.zeros(64, np.uint32)
        with pytest.raises(KernelFault):
            function(o, v, threads=64, group_size=group)
        if name not in ("uniform", "behind a loop"):
            good = np.where(np.arange(64) == 5, 0, 77 + np.arange(64))
            assert o.tolist() == good.tolist()

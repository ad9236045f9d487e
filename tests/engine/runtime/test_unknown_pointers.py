"""Faults of pointers that lead nowhere: the message tells nothing of where other memory lies."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault

FOLLOW = metalcore.Library("""
kernel void follow(device const ulong* table, device float* x, uint i [[thread_position_in_grid]]) {
  ((device float*)table[0])[i] = 42;
}
""").function("follow")


def test_far_from_every_array() -> None:
    memory = np.zeros(1 << 16, np.float32)
    x, far = memory[:16], memory[40000:]
    table = np.array([far.ctypes.data], np.uint64)
    with pytest.raises(KernelFault) as fault:
        FOLLOW(table, x, threads=4)
    assert "a pointer loaded from memory: its address lies in none of the arrays bound" in str(fault.value)
    assert "index" not in str(fault.value) and "0x" not in str(fault.value)
    with metalcore.mode("sanitize") as report:
        FOLLOW(table, x, threads=4)
    (finding,) = report.findings
    assert finding.index is None and "none of the arrays bound holds" in str(finding)
    assert not memory.any()


def test_just_past_an_array() -> None:
    memory = np.zeros(1 << 16, np.float32)
    x = memory[:16]
    with pytest.raises(KernelFault, match="index 16, the size is 16"):
        FOLLOW(np.array([x.ctypes.data], np.uint64), x, threads=17)
    assert (x == 42).all() and not memory[16:].any()

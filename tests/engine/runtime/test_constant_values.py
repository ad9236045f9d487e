"""`constant T&`: None is zeros, and a kernel that casts its constness away changes no argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metalcore

LIBRARY = metalcore.Library("""
struct S { uint a; uint b; };
kernel void number(constant uint& x, device uint* o, uint i [[thread_position_in_grid]]) { o[i] = x + 5; }
kernel void record(constant S& x, device uint* o, uint i [[thread_position_in_grid]]) { o[i] = x.a + 5; }
kernel void cast_number(constant uint& x, device uint* o, uint i [[thread_position_in_grid]]) {
  if (i == 0) *((device uint*)(ulong)&x) = 1;
  o[i] = x;
}
kernel void cast_record(constant S& x, device uint* o, uint i [[thread_position_in_grid]]) {
  if (i == 0) *((device uint*)(ulong)&x) = 1;
  o[i] = x.a;
}
""")


@pytest.mark.parametrize("kernel", ["number", "record"])
@pytest.mark.parametrize("mode", ["checked", "sanitize", "fast"])
def test_none_is_zeros(kernel: str, mode: str) -> None:
    o = np.zeros(4, np.uint32)
    with metalcore.mode(mode):
        LIBRARY.function(kernel)(None, o, threads=4)
    assert o.tolist() == [5] * 4


@pytest.mark.parametrize("kernel", ["cast_number", "cast_record"])
def test_a_write_by_a_cast_changes_no_argument(kernel: str) -> None:
    o = np.zeros(64, np.uint32)
    x: Any = np.full(1 if kernel == "cast_number" else 2, 7, np.uint32)
    LIBRARY.function(kernel)(x if kernel == "cast_number" else x.view(np.uint8), o, threads=64)
    assert (x == 7).all() and (o[1:] == 7).all()

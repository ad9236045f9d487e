"""Structs that are copied whole: what is written has been written, and races over it are found."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore

SOURCE = """#include <metal_stdlib>
using namespace metal;
struct X { float a; float b[3]; };
struct Y { int a; long b; char c; float q[20]; };  // with padding between its members
kernel void k(device float* o, uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {
  device X* x = (device X*)o;
"""
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
CASES = {
    "written, then read": (f"threadgroup X s[64]; s[t] = x[t]; {BARRIER} o[1000 + i] = s[63 - t].b[2];", []),
    "without a barrier": ("threadgroup X s[64]; s[t] = x[t]; o[1000 + i] = s[63 - t].b[2];", ["race"]),
    "all to one place": (f"threadgroup X s[2]; s[0] = x[t]; {BARRIER} o[1000 + i] = s[0].b[2];", ["race"]),
    "the same to one place": (
        f"threadgroup X s[2]; s[0] = x[3]; {BARRIER} o[1000 + i] = s[0].b[2];",
        ["same-value-race"],
    ),
    "read where nobody wrote": (
        f"threadgroup X s[66]; s[t] = x[t]; {BARRIER} o[1000 + i] = s[65 - t].b[2];",
        ["uninitialised-threadgroup-memory"],
    ),
    "with padding": (
        f"threadgroup Y s[64]; s[t].a = t; s[t].b = t; s[t].c = 1; for (int j = 0; j < 20; j++) s[t].q[j] = j;"
        f" {BARRIER} Y y = s[63 - t]; o[1000 + i] = y.q[t % 20] + y.a;",
        [],
    ),
    "from a variable": (
        f"threadgroup Y s[64]; Y y = {{}}; y.q[t % 20] = t; s[t] = y; {BARRIER} o[1000 + i] = s[63 - t].q[t % 20];",
        [],
    ),
    "set to zero": (f"threadgroup X s[64]; s[t] = X{{}}; {BARRIER} o[1000 + i] = s[63 - t].b[2];", []),
    "within a buffer": ("x[100 + i] = x[i];", []),
    "over what others read": ("x[i] = x[i + 1];", ["race", "simdgroup-race"]),
}


@pytest.mark.parametrize("name", CASES)
def test_copies(name: str) -> None:
    body, kinds = CASES[name]
    function = metalcore.Library(f"{SOURCE}{body} }}").function("k")
    plain = np.arange(4096, dtype=np.float32)
    watched = plain.copy()
    with metalcore.mode("sanitize") as report:
        function(watched, threads=64, group_size=64)
    assert [finding.kind for finding in report.findings] == kinds
    if not kinds:
        function(plain, threads=64, group_size=64)
        assert np.array_equal(plain, watched)

"""Copies of many bytes, or of a number of bytes that only the launch knows, are loops in the machine code."""

from __future__ import annotations

import time

import numpy as np
import pytest

import metalcore

KERNEL = """
struct Many { uint a[3000]; };
kernel void k(device uint* o, device const uint* b, device const Many* many, uint i [[thread_position_in_grid]]) {
  BODY
}
"""
# The name, the body, and what thread i must find; b = 0, 5, 9, 20, then 7s; many[j].a[k] = 10000 j + k
BODIES = {
    "zeros": ("uint a[20000] = {0}; a[b[1]] = i + 1; o[i] = a[b[0]] * 3 + a[b[1]] + a[19999];", lambda i: i + 1),
    "bytes": (
        "uchar a[5000]; for (uint j = 0; j < 5000; j++) a[j] = 0x11; a[b[1]] = 1; o[i] = a[b[2]] + a[b[1]] + a[4999];",
        lambda i: i * 0 + 0x23,
    ),
    "length of the launch": (
        "uint a[64]; for (uint j = 0; j < b[3]; j++) a[j] = 0x01010101; a[b[1]] = i; o[i] = a[b[1]] + a[b[3] - 1];",
        lambda i: i + 0x01010101,
    ),
    "none": ("uint a[64]; a[3] = i; for (uint j = 0; j < b[0]; j++) a[j] = 0; o[i] = a[b[1] - 2];", lambda i: i),
    "a struct": ("Many m = many[i & 1]; m.a[b[1]] += 2; o[i] = m.a[b[1]] + m.a[b[2]];", lambda i: 16 + 20000 * (i & 1)),
    "one array to another": (
        "uint a[900], c[900]; for (uint j = 0; j < 900; j++) a[j] = j * i; for (uint j = 0; j < 900; j++) c[j] = a[j];"
        " c[b[1]] += 1; o[i] = a[b[1]] + c[b[1]] + c[b[2]];",
        lambda i: 19 * i + 1,
    ),
    "twice": (
        "uint a[900] = {0}; uint c[900] = {0}; a[b[1]] = i; for (uint j = 0; j < b[1]; j++) c[j] = 0x02020202;"
        " o[i] = a[b[1]] + c[b[1]] + c[b[1] - 1];",
        lambda i: i + 0x02020202,
    ),
}


@pytest.mark.feature("language", "large private arrays: initialised, copied, filled to a length of the launch's")
@pytest.mark.parametrize("name", BODIES)
def test_long_copies(name: str) -> None:
    body, want = BODIES[name]
    function = metalcore.Library(KERNEL.replace("BODY", body)).function("k")
    b = np.array([0, 5, 9, 20, *[7] * 100], np.uint32)
    many = np.add.outer(np.arange(2) * 10000, np.arange(3000)).astype(np.uint32)
    start = time.process_time()
    # The sanitizer looks at each word of a struct that is copied: this one is over the limit of a kernel's size.
    for mode in ("checked", "fast") if name == "a struct" else ("checked", "sanitize", "fast"):
        o = np.zeros(40, np.uint32)
        with metalcore.mode(mode) as report:
            function(o, b, many.view(np.uint8), threads=40, group_size=40)
        assert o.tolist() == want(np.arange(40)).astype(np.uint32).tolist(), mode
        assert mode != "sanitize" or not report.findings
    assert time.process_time() - start < 20  # it took minutes, where it compiled at all


def test_the_limit_of_private_memory_is_the_same_in_sanitize_mode() -> None:
    source = "kernel void k(device uint* o, device const uint* b) { uint a[SIZE]; a[b[0]] = 3; o[0] = a[b[1]]; }"
    o, b = np.zeros(1, np.uint32), np.zeros(2, np.uint32)
    for mode in ("checked", "sanitize"):
        with metalcore.mode(mode):
            metalcore.Library(source.replace("SIZE", "65536")).function("k")(o, b, threads=1)
            assert o[0] == 3
            with pytest.raises(metalcore.errors.LaunchError, match="262,148 bytes"):
                metalcore.Library(source.replace("SIZE", "65537")).function("k")(o, b, threads=1)

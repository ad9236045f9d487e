"""Pointers that may point into one of several arrays, and structs that are copied: each stays in its own array."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault

HEAD = """struct S { uint x, y, z; };
kernel void k(device uint* o, device const uint* b, uint l [[thread_position_in_threadgroup]]) {"""
TWO = "uint a[4], d[4]; for (int j = 0; j < 4; j++) { a[j] = b[j]; d[j] = b[j + 4]; } "
TABLES = "constant uint t[3] = {1, 2, 3}; constant uint u[5] = {4, 5, 6, 7, 8};\n"
B = np.arange(64, dtype=np.uint32)


def run(body: str, mode: str = "checked", before: str = "") -> tuple[list[int], list[str]]:
    o = np.zeros(32, np.uint32)
    with metalcore.mode(mode) as report:
        metalcore.Library(before + HEAD + body + "}").function("k")(o, B, threads=32, group_size=32)
    findings = report.findings if mode == "sanitize" else []
    assert all(f.kind == "out-of-bounds" and f.line for f in findings)
    return o.tolist(), [str(f) for f in findings]


def check_found(body: str, expected: list[int], before: str = "") -> None:
    with pytest.raises(KernelFault, match="read out of bounds"):
        run(body, before=before)
    values, findings = run(body, "sanitize", before)
    assert values == expected and findings


@pytest.mark.parametrize("choice", ["b[9]", "b[0]", "l & 1"])
@pytest.mark.parametrize("index", ["1024", "-1024", "b[60] * 50"])
@pytest.mark.feature("language", "a pointer to one of several private arrays: past its array is a fault")
def test_past_one_of_two_private_arrays(choice: str, index: str) -> None:
    check_found(f"{TWO} thread uint* p = {choice} ? a : d; o[l] = p[{index}];", [0] * 32)


@pytest.mark.parametrize("mode", ["checked", "sanitize", "fast"])
def test_inside_one_of_two_private_arrays(mode: str) -> None:
    body = f"{TWO} uint e[9] = {{7}}; thread uint* p = b[9] ? a + 1 : d; p = b[0] ? p : b[1] ? p : e; o[l] = p[2];"
    assert run(body, mode) == ([3] * 32, [])
    body = f"{TWO} thread uint* p = l & 1 ? a : d + 1; p[1] += l; o[l] = a[1] * 100 + d[2];"
    expected = [(1 + i * (i & 1)) * 100 + 6 + i * (1 - (i & 1)) for i in range(32)]
    assert run(body, mode) == (expected, [])


@pytest.mark.parametrize("place, expected", [("a + 3", 3), ("a + b[0] + 3", 3), ("a + l / 40 + 3", 3), ("a + 4", 0)])
def test_a_struct_that_reaches_past_a_private_array(place: str, expected: int) -> None:
    check_found(f"{TWO} S s = *(thread S*)({place}); o[l] = s.x + s.y + s.z;", [expected] * 32)


@pytest.mark.parametrize("place, expected", [("t + 1", 5), ("t + b[1]", 5), ("t + 3", 0)])
def test_a_struct_that_reaches_past_a_table(place: str, expected: int) -> None:
    check_found(f"S s = *(constant S*)({place}); o[l] = s.x + s.y + s.z;", [expected] * 32, TABLES)


@pytest.mark.parametrize("mode", ["checked", "sanitize", "fast"])
def test_a_struct_inside_an_array(mode: str) -> None:
    body = f"{TWO} S s = *(thread S*)(a + 1), r = *(constant S*)(u + b[2]); o[l] = s.x + s.y + s.z + r.z;"
    assert run(body, mode, TABLES) == ([14] * 32, [])


def test_a_struct_that_is_written_past_a_private_array() -> None:
    body = f"{TWO} S s = {{l, l, l}}; *(thread S*)(a + b[2]) = s; o[l] = a[1] + a[2] + d[0];"
    with pytest.raises(KernelFault, match="write out of bounds"):
        run(body)


@pytest.mark.parametrize("body", ["o[l] = t[5];", "o[l] = u[b[5]];", "o[l] = t[-1];"])
def test_past_a_table_is_found_at_any_index(body: str) -> None:
    check_found(body, [0] * 32, TABLES)


def test_a_private_pointer_that_a_loop_moves_on() -> None:
    check_found(f"{TWO} thread uint* p = a; for (uint j = 0; j < 100; j++) p += 1; o[l] = *p;", [0] * 32)

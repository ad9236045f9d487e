"""Pointers that may point into one of several arrays, and structs that are copied: each stays in its own array."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault

HEAD = """#include <metal_stdlib>
using namespace metal;
struct S { uint x, y, z; };
kernel void k(device uint* o, device const uint* b, uint l [[thread_position_in_threadgroup]]) {"""
TWO = "uint a[4], d[4]; for (int j = 0; j < 4; j++) { a[j] = b[j]; d[j] = b[j + 4]; } "
TABLES = "constant uint t[3] = {1, 2, 3}; constant uint u[5] = {4, 5, 6, 7, 8}; constant uint w[4] = {};\n"
B = np.arange(64, dtype=np.uint32)


def run(body: str, mode: str = "checked", before: str = "") -> tuple[list[int], list[str]]:
    o = np.zeros(32, np.uint32)
    with metalcore.mode(mode) as report:
        library = metalcore.Library(HEAD.replace("kernel", before + "kernel") + body + "}")
        library.function("k")(o, B, threads=32, group_size=32)
    findings = report.findings if mode == "sanitize" else []
    assert all(f.kind == "out-of-bounds" and f.line for f in findings)
    return o.tolist(), [str(f) for f in findings]


def check_found(body: str, expected: list[int], before: str = "") -> None:
    with pytest.raises(KernelFault, match="read out of bounds"):
        run(body, before=before)
    values, findings = run(body, "sanitize", before)
    assert values == expected and findings


@pytest.mark.parametrize("choice", ["b[9]", "b[0]", "l & 1"])
@pytest.mark.parametrize("index", ["1024", "4", "-1", "b[60] * 50", "b[4]"])
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


@pytest.mark.parametrize("choice", ["b[0]", "b[1]", "l & 1"])
def test_past_one_of_two_tables(choice: str) -> None:
    check_found(f"constant uint* p = {choice} ? t : u; o[l] = p[5];", [0] * 32, TABLES)
    check_found(f"constant uint* p = {choice} ? t : u; o[l] = p[b[5]];", [0] * 32, TABLES)
    check_found(f"constant uint* p = {choice} ? t + 1 : u; o[l] = p[-2];", [0] * 32, TABLES)
    check_found(f"constant uint* p = {choice} ? t + 1 : t + 2; o[l] = p[2];", [0] * 32, TABLES)
    check_found(f"constant uint* p = {choice} ? w + 1 : w + 2; o[l] = p[3] | p[2];", [0] * 32, TABLES)


# Each of these leaves its own array for the one beside it.
GROUP = "threadgroup uint A[32], B[32]; A[l] = B[l] = 1; threadgroup_barrier(mem_flags::mem_threadgroup); "
AFTER = " threadgroup_barrier(mem_flags::mem_threadgroup); o[l] = A[l] * 10 + B[l];"
CHOSEN = [
    "threadgroup uint* p = b[0] ? B : A; p[b[0] + 32 + l] = 7;",
    "threadgroup uint* p = b[1] ? B : A; p[int(l) - 32] = 7;",
    "threadgroup uint* p = l & 1 ? B : A; p[l & 1 ? int(l) - 32 : int(l) + 32] = 7;",
    "threadgroup uint *p = A, *q = B; for (uint j = 0; j < b[3]; j++) { auto r = p; p = q; q = r; } "
    "p[int(l) - 32] = 7;",
    "threadgroup uint *p = A; for (uint j = 0; j < l; j++) p = j & 1 ? A : B; "
    "p[p == A ? int(l) + 32 : int(l) - 32] = 7;",
    "threadgroup atomic_uint* p = (threadgroup atomic_uint*)(b[0] ? B : A); "
    "atomic_fetch_add_explicit(p + 32 + l, 6u, memory_order_relaxed);",
    "threadgroup uint2* p = (threadgroup uint2*)(b[0] ? B : A); p[16 + l / 2] = uint2(7);",
]


@pytest.mark.parametrize("body", CHOSEN)
def test_past_one_of_two_threadgroup_variables(body: str) -> None:
    source = GROUP + body + AFTER
    with pytest.raises(KernelFault, match="out of bounds"):
        run(source)
    values, findings = run(source, "sanitize")
    assert findings and values == [11] * 32


@pytest.mark.parametrize("mode", ["checked", "fast"])
def test_two_threadgroup_variables_that_change_places(mode: str) -> None:
    body = """threadgroup uint A[32], B[32]; threadgroup uint *p = A, *q = B; p[l] = l;
        for (uint j = 0; j < b[3]; j++) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            q[l] = p[(l + 1) & 31] + 1; auto r = p; p = q; q = r;
        }
        o[l] = p[l] + (l & 1 ? A : B)[l] * 1000;"""
    now = [(i + 3) % 32 + 3 for i in range(32)]
    before = [(i + 2) % 32 + 2 for i in range(32)]
    assert run(body, mode)[0] == [now[i] + 1000 * (before if i & 1 else now)[i] for i in range(32)]


@pytest.mark.parametrize("choice", ["b[0]", "l & 1"])
@pytest.mark.parametrize("past", ["(p == x ? 32 : -32)", "(p == x ? 32u : 0u - 32u)"])
def test_past_one_of_two_neighbours(choice: str, past: str) -> None:
    source = """kernel void k(device uint* x, device uint* y, device const uint* b,
        uint l [[thread_position_in_grid]]) { device uint* p = CHOICE ? y : x; p[l + PAST] = 700; p[l] += 100; }"""
    memory = np.arange(64, dtype=np.uint32)
    function = metalcore.Library(source.replace("CHOICE", choice).replace("PAST", past)).function("k")
    with pytest.raises(KernelFault, match=r"buffer '[xy]'.*31 more"):
        function(memory[:32], memory[32:], B, threads=32)
    second = [i & 1 == 1 and choice != "b[0]" for i in range(32)]
    expected = [i + 100 * (not second[i]) for i in range(32)] + [32 + i + 100 * second[i] for i in range(32)]
    assert memory.tolist() == expected

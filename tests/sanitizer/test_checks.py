"""Tiny kernels with one mistake each, and what sanitize mode says of it; and kernels without one."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore

HEAD = """#include <metal_stdlib>
using namespace metal;
struct Pair { float4 v; int n; };
struct Half { float a; ushort b; };
Half with_padding(int n) { Half h; h.a = 1; h.b = ushort(n); return h; }
float twice(float x) { return x * 2; }
int share(int a, int b) { return a / b; }
uint moved(uint a, uint by) { return a << by; }
struct Flags { bool a, b, c, d, e; };
int chosen(Flags f) { return f.a ? 1 : int(f.e); }
kernel void k(device int* x [[buffer(0)]], constant int& n [[buffer(1)]], uint i [[thread_position_in_grid]]) {
"""
LINE = HEAD.count("\n") + 1
MISTAKES = {
    "division": ("x[i] = 7 / x[i];", "division-by-zero", 3),
    "unsigned remainder": ("x[i] = int(7u % uint(x[i]));", "division-by-zero", 3),
    "division in a branch": ("if (i > 2) x[i] = 100 / (int(i) - 5);", "division-by-zero", 5),
    "64-bit division": ("x[i] = int(long(i) / long(x[i]));", "division-by-zero", 3),
    "left shift": ("x[i] = 1 << (int(i) + 26);", "shift-past-width", 6),
    "right shift": ("x[i] = x[i] >> (n + 30);", "shift-past-width", 0),
    "negative shift": ("x[i] = 1 << (int(i) - 1);", "shift-past-width", 0),
    "shift of 64 bits": ("x[i] = int(1ul << (60 + i));", "shift-past-width", 4),
    "variable": ("int v; if (i > 3) v = 1; x[i] = v;", "uninitialised-variable", 0),
    "variable in a condition": ("int v; if (i != 2) v = 1; if (v > 0) x[i] = 1;", "uninitialised-variable", 2),
    "variable in an address": ("int v; if (i < 6) v = int(i); x[v & 7] = 1;", "uninitialised-variable", 6),
    "member of a struct": ("Pair p; p.v = float4(1); Pair q = p; x[i] = q.n;", "uninitialised-variable", 0),
    "component of a vector": ("int3 v; v.x = 1; v.z = 2; x[i] = v.x + v.y;", "uninitialised-variable", 0),
    "element of an array": ("int a[4]; a[0] = a[1] = 1; x[i] = a[i & 3];", "uninitialised-variable", 2),
    "result of a function": ("float v; if (i != 1) v = 2; x[i] = int(twice(v));", "uninitialised-variable", 1),
    "last of a loop": ("int v; for (int j = 0; j < int(i); ++j) v = j; x[i] = v;", "uninitialised-variable", 0),
    "plain store, then atomics": (
        "if (i == 0) x[0] = 0; atomic_fetch_add_explicit((device atomic_int*)x, 1, memory_order_relaxed);",
        "simdgroup-race",
        1,
    ),
    "vectors to one place": ("*(device int4*)x = int4(int(i));", "race", 1),
    "read past the end": ("int v = x[i + n]; simdgroup_barrier(mem_flags::mem_device); x[i] = v;", "out-of-bounds", 6),
    "write past the end": ("x[i + n] = 1;", "out-of-bounds", 6),
}
CORRECT = {
    "guarded division": "x[i] = x[i] ? 7 / x[i] : 0;",
    "shift within the width": "x[i] = 1 << (i & 31);",
    "copy of a struct with a hole": "Pair p; p.v = float4(1); Pair q = p; x[i] = int(q.v.y);",
    "struct with padding through a function": "Half h = with_padding(x[i]); x[i] = h.b;",
    "constant index of threadgroup memory": "threadgroup int t[8]; if (i == 0) t[4] = x[i];"
    " threadgroup_barrier(mem_flags::mem_threadgroup); if (i == 1) x[i] = t[4];",
    "atomics, then plain reads": "threadgroup atomic_int c[1]; if (i == 0) atomic_store_explicit(c, 0,"
    " memory_order_relaxed); simdgroup_barrier(mem_flags::mem_threadgroup); atomic_fetch_add_explicit(c, 1,"
    " memory_order_relaxed); simdgroup_barrier(mem_flags::mem_threadgroup); x[i] = *(threadgroup int*)c;",
    "struct of five bytes by value": "Flags f = {i > 3, true, false, true, i > 1}; x[i] = chosen(f);",
    "set in both branches": "int v; if (i > 3) v = 1; else v = 2; x[i] = v;",
    "array filled in a loop": "int a[5]; for (int j = 0; j < 5; ++j) a[j] = j; x[i] = a[i % 5];",
    "set through a pointer": "int v; thread int* p = &v; *p = 3; x[i] = v;",
    "set by a function": "int v; [](thread int& r) { r = 4; }(v); x[i] = v;",
    "bit-fields": "struct { uint a : 3; uint b : 5; } s; s.a = 3; s.b = 7; x[i] = int(s.a + s.b);",
    "shuffle of a vector": "int2 v = simd_shuffle_xor(int2(x[i], 1), ushort(1)); x[i] = v.y;",
}


def sanitize(body: str) -> tuple[metalcore.Report, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    x = np.array([1, 2, 3, 0, 5, 6, 0, 8], np.int32)
    with metalcore.mode("sanitize") as report:
        metalcore.Library(HEAD + body + "\n}").function("k")(x, 2, threads=8, group_size=8)
    return report, x


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str) -> None:
    body, check, thread = MISTAKES[name]
    report, _ = sanitize(body)
    assert [(f.kind, f.line, f.thread) for f in report.findings] == [(check, LINE, (thread, 0, 0))], str(report)
    assert f"{check} in kernel 'k' by thread ({thread}, 0, 0) of the grid" in str(report)


@pytest.mark.parametrize(("call", "check", "value"), [
    ("share(7, 0)", "division-by-zero", 0), ("int(moved(7u, 40u))", "shift-past-width", 7 << 8)
])  # fmt: skip
def test_a_constant_given_to_a_function_is_not_folded_first(call: str, check: str, value: int) -> None:
    report, x = sanitize(f"if (i > 1) x[i] = {call};")
    at = HEAD[: HEAD.index(call.removeprefix("int(").partition("(")[0] + "(")].count("\n") + 1
    assert [(f.kind, f.line, f.thread) for f in report.findings] == [(check, at, (2, 0, 0))], str(report)
    assert x[2:].tolist() == [value] * 6


@pytest.mark.parametrize("name", CORRECT)
def test_nothing_is_found_in_a_correct_kernel(name: str) -> None:
    report, x = sanitize(CORRECT[name])
    assert not report.findings, str(report)
    y = np.array([1, 2, 3, 0, 5, 6, 0, 8], np.int32)
    metalcore.Library(HEAD + CORRECT[name] + "\n}").function("k")(y, 2, threads=8, group_size=8)
    np.testing.assert_array_equal(x, y)


def test_results_are_those_of_checked_mode() -> None:
    _, x = sanitize("x[i] = i == 3 ? x[i + 100] - 1 : 7 / x[i];")
    np.testing.assert_array_equal(x, [7, 3, 2, -1, 1, 1, 0, 0])


def test_the_same_mistake_is_counted_over_threads_and_launches() -> None:
    source = "kernel void k(device int* x, uint i [[thread_position_in_grid]]) { x[i] = 1 / (x[i] - x[i]); }"
    kernel = metalcore.Library(source).function("k")
    with metalcore.mode("sanitize") as report:
        for _ in range(3):
            kernel(np.zeros(100, np.int32), threads=100, group_size=64)
    assert [(f.count, f.thread, f.threadgroup) for f in report.findings] == [(300, (0, 0, 0), (0, 0, 0))]


def test_a_finding_in_a_later_group_names_its_thread() -> None:
    source = "kernel void k(device int* x, uint i [[thread_position_in_grid]]) { x[i] = 9 / (int(i) - 77); }"
    with metalcore.mode("sanitize") as report:
        metalcore.Library(source).function("k")(np.zeros(100, np.int32), threads=100, group_size=32)
    assert [(f.thread, f.threadgroup) for f in report.findings] == [((77, 0, 0), (2, 0, 0))]


def test_modes_nest_and_end() -> None:
    source = "kernel void k(device int* x, uint i [[thread_position_in_grid]]) { x[i] = 1 / x[i]; }"
    kernel = metalcore.Library(source).function("k")
    x = np.zeros(4, np.int32)
    with metalcore.mode("sanitize") as outer:
        with metalcore.mode("fast"):
            kernel(x, threads=4)
        assert len(outer) == 0
        with metalcore.mode("sanitize") as inner:
            kernel(x, threads=4)
    kernel(x, threads=4)
    assert len(inner) == 1 and len(outer) == 0

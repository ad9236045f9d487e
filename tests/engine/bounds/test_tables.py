"""Tables in constant memory: read at any place that the source can write, and no further than their ends."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.engine.names import plain_name
from metalcore.errors import KernelFault

ROWS = "constant float W[3][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};"
LINE = "constant float W[8] = {1, 2, 3, 4, 5, 6, 7, 8};"
RECORD = "struct S { float c; float t[4]; }; constant S C = {1, {3, 4, 5, 6}};"
RECORDS = "struct S { float c; float t[4]; }; constant S C[2] = {{1, {3, 4, 5, 6}}, {2, {7, 8, 9, 10}}};"
CUBE = "struct S { float c; float t[2][2][2]; }; constant S C = {1, {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}};"
MATRIX = """#include <metal_stdlib>
using namespace metal;
struct S { float a; float3x3 m; };
constant S Z = {1, float3x3(float3(1, 2, 3), float3(4, 5, 6), float3(7, 8, 9))};"""
CALLED = ROWS + " static float f(constant float* w, uint i) { return w[i]; }"


def run(before: str, body: str, mode: str = "checked") -> tuple[list[float], list[str]]:
    source = f"{before}\nkernel void k(device float* o, uint i [[thread_position_in_grid]]) {{ {body} }}"
    o = np.zeros(3, np.float32)
    with metalcore.mode(mode) as report:
        metalcore.Library(source).function("k")(o, threads=3)
    return o.tolist(), [str(finding) for finding in report.findings] if mode == "sanitize" else []


@pytest.mark.parametrize("mode", ["checked", "sanitize", "fast"])
@pytest.mark.parametrize(
    "before, body, expected",
    [
        (ROWS, "o[i] = W[1][i];", [4, 5, 6]),
        (RECORD, "o[i] = C.t[i];", [3, 4, 5]),
        (LINE, "o[i] = (W + 2)[i];", [3, 4, 5]),
        (LINE + " constant float* constant p = W + 4;", "o[i] = p[i];", [5, 6, 7]),
        (RECORDS, "o[i] = C[1].t[i];", [7, 8, 9]),
        (RECORDS, "o[i] = (C + 1)->t[i + 1];", [8, 9, 10]),
        (CUBE, "o[i] = C.t[i & 1][i >> 1][1];", [2, 6, 4]),
        (CUBE, "o[i] = C.t[1][i & 1][0];", [5, 7, 5]),
        (CALLED, "o[i] = f(W[1], i);", [4, 5, 6]),
        (MATRIX, "o[i] = Z.m[1][i];", [4, 5, 6]),
    ],
)
@pytest.mark.feature("language", "constant tables and structs, indexed from any place inside")
def test_an_index_counts_from_a_constant_place(before: str, body: str, expected: list[float], mode: str) -> None:
    assert run(before, body, mode) == (expected, [])


@pytest.mark.parametrize(
    "before, body",
    [
        (ROWS, "o[i] = W[1][i + 6];"),
        (RECORD, "o[i] = C.t[i + 4];"),
        (LINE, "o[i] = (W + 2)[i + 6];"),
        (RECORDS, "o[i] = C[1].t[i + 4];"),
        (RECORDS, "o[i] = C[1].t[4];"),
        (CALLED, "o[i] = f(W[1], i + 6);"),
    ],
)
def test_past_the_end_is_found_from_a_constant_place(before: str, body: str) -> None:
    with pytest.raises(KernelFault, match="read out of bounds"):
        run(before, body)
    values, findings = run(before, body, "sanitize")
    assert values == [0, 0, 0] and findings and all("out-of-bounds" in finding for finding in findings)


INSIDE = "namespace n { template <typename T> struct Q { static constant constexpr T row[3] = {1, 2, 3}; }; } "


@pytest.mark.parametrize(
    "before, body, named",
    [
        (LINE, "o[i] = W[i + 100];", "constant table 'W'"),
        ("namespace n { constant float V[2] = {1, 2}; }", "o[i] = n::V[i + 100];", "constant table 'V'"),
        (INSIDE, "o[i] = n::Q<float>::row[i + 100];", "constant table 'row'"),
        ("", "constant float own[4] = {1, 2, 3, 4}; o[i] = own[i + 100];", "constant table 'own'"),
        ("", 'constant char* s = "words"; o[i] = s[i + 100];', "a string"),
        ("", "threadgroup float shared[4]; shared[i] = 1; o[i] = shared[i + 100];", "threadgroup memory 'shared'"),
    ],
)
def test_memory_is_called_as_the_source_calls_it(before: str, body: str, named: str) -> None:
    with pytest.raises(KernelFault, match=f": {named}: index 100, the size is"):
        run(before, body)
    assert f"a read of {named} at index 100, the size is" in run(before, body, "sanitize")[1][0]


@pytest.mark.parametrize(
    "symbol, name",
    [
        ("@_ZL1W", "W"),
        ("@_ZN2nsL5tableE", "table"),
        ("@_ZN12_GLOBAL__N_11WE", "W"),
        ("@_ZL1TIjLj32EE", "T"),
        ("_ZZ1kPU8SYglobalDv4_fRA3_S_jE6shared_1", "shared"),
        ("_ZZ1kPU8SYglobaljE6shared__12_", "shared"),
        ("@__const._Z1kPU8SYglobalj.own.3", "own"),
        ("@.str.2", ""),
        ("threadgroup(0)", "threadgroup(0)"),
    ],
)
def test_the_plain_name_of_a_variable(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name


def test_an_atomic_operation_is_called_one() -> None:
    body = """atomic_fetch_add_explicit((device atomic_uint*)((device char*)o + 1), 1u, memory_order_relaxed);"""
    _, findings = run("#include <metal_stdlib>\nusing namespace metal;", body, "sanitize")
    assert any("misaligned" in finding and ": an atomic operation that needs" in finding for finding in findings)

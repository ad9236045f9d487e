"""Pragmas and attributes that kernels carry."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import LaunchError
from tests.engine.language.helpers import HEADER, feature, launch

PRAGMAS = {
    "#pragma unroll": "#pragma unroll",
    "#pragma unroll with an expression": "#pragma unroll(N / 2)",
    "#pragma clang loop unroll(full)": "#pragma clang loop unroll(full)",
    '_Pragma("clang loop unroll(full)")': '_Pragma("clang loop unroll(full)")',
    "#pragma clang loop vectorize and interleave": "#pragma clang loop vectorize(disable) interleave(disable)",
}


@pytest.mark.parametrize("pragma", [feature("language", name, text) for name, text in PRAGMAS.items()])
def test_loop_pragmas(pragma: str) -> None:
    source = f"""
    constant constexpr int N = 8;
    kernel void k(device int* o, uint i [[thread_position_in_grid]]) {{
        int s = 0;
        {pragma}
        for (int j = 0; j < N; ++j) s += j * int(i);
        o[i] = s;
    }}"""
    out = np.zeros(3, np.int32)
    launch(source, out, threads=3)
    assert out.tolist() == [0, 28, 56]


@pytest.mark.feature("language", "#pragma METAL internals and unknown pragmas are accepted")
def test_other_pragmas() -> None:
    source = """
    #pragma METAL internals : enable
    #pragma once
    #pragma mark - kernels
    #pragma clang diagnostic ignored "-Wunused-variable"
    kernel void k(device int* o, uint i [[thread_position_in_grid]]) { o[i] = 3; }
    #pragma METAL internals : disable
    """
    out = np.zeros(2, np.int32)
    launch(source, out, threads=2)
    assert out.tolist() == [3, 3]


LIMITS = {
    "before kernel": "[[max_total_threads_per_threadgroup(64)]] kernel void",
    "after kernel": "kernel [[max_total_threads_per_threadgroup(64)]] void",
    "with an expression": "[[kernel, max_total_threads_per_threadgroup(SIDE * SIDE)]] void",
}


@pytest.mark.parametrize(
    "words", [feature("language", f"[[max_total_threads_per_threadgroup]] {n}", text) for n, text in LIMITS.items()]
)
def test_max_total_threads(words: str) -> None:
    source = f"#define SIDE 8\n{words} k(device int* o, uint i [[thread_position_in_grid]]) {{ o[i] = 1; }}"
    function = metalcore.Library(HEADER + source).function("k")
    assert function.max_threads == 64
    out = np.zeros(100, np.int32)
    function(out, threads=100, group_size=64)
    assert (out == 1).all()
    with pytest.raises(LaunchError, match="64"):
        function(out, threads=100, group_size=65)


@pytest.mark.feature("rejected", "a group of more than 1,024 threads")
def test_group_too_large() -> None:
    with pytest.raises(LaunchError, match=r"1024|1,024"):
        launch("kernel void k(device int* o) { o[0] = 1; }", np.zeros(1, np.int32), threads=2048, group_size=1025)


@pytest.mark.feature("language", "always_inline, noinline, METAL_FUNC and maybe_unused")
def test_function_attributes() -> None:
    source = """
    METAL_FUNC int a(int x) { return x + 1; }
    inline __attribute__((always_inline)) int b(int x) { return x * 2; }
    __attribute__((noinline)) int c(int x) { return x - 3; }
    [[maybe_unused]] static int d(int x) { return x; }
    kernel void k(device int* o, uint i [[thread_position_in_grid]]) { o[i] = c(b(a(int(i)))); }
    """
    out = np.zeros(3, np.int32)
    launch(source, out, threads=3)
    assert out.tolist() == [-1, 1, 3]

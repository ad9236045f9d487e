"""Barriers and threadgroup memory, static and dynamic."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import LaunchError
from tests.engine.language.helpers import HEADER, launch


def line(count: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.zeros(count, np.int32)


REVERSE = """
kernel void k(device int* o, uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]],
              uint n [[threads_per_threadgroup]]) {
    threadgroup int s[256];
    s[t] = int(i);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    o[i] = s[n - 1 - t];
}"""


@pytest.mark.feature("threadgroup memory", "static arrays, exchanged over a barrier")
@pytest.mark.parametrize(("threads", "group"), [(256, 256), (100, 64), (33, 33), (7, 32), (64, 1)])
def test_reverse(threads: int, group: int) -> None:
    out = line(threads)
    launch(REVERSE, out, threads=threads, group_size=group)
    expected = []
    for start in range(0, threads, group):
        expected += list(reversed(range(start, min(start + group, threads))))
    assert out.tolist() == expected


@pytest.mark.feature("lockstep", "barriers inside a uniform loop")
@pytest.mark.parametrize("count", [1, 32, 64, 200, 256])
def test_scan_in_a_loop(count: int) -> None:
    source = """
    kernel void k(device int* o, uint t [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
        threadgroup int s[256];
        s[t] = int(t) + 1;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint step = 1; step < n; step *= 2) {
            int add = t >= step ? s[t - step] : 0;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            s[t] += add;
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        o[t] = s[t];
    }"""
    out = line(count)
    launch(source, out, threads=count, group_size=count)
    assert out.tolist() == [i * (i + 1) // 2 for i in range(1, count + 1)]


@pytest.mark.feature("lockstep", "barriers with divergent code between them")
def test_tree_reduction() -> None:
    source = """
    kernel void k(device int* o, uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]],
                  uint g [[threadgroup_position_in_grid]]) {
        threadgroup int s[128];
        s[t] = int(i) * 2;
        for (uint half_size = 64; half_size > 0; half_size >>= 1) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (t < half_size) s[t] += s[t + half_size];
        }
        if (t == 0) o[g] = s[0];
    }"""
    out = line(3)
    launch(source, out, threads=384, group_size=128)
    assert out.tolist() == [sum(range(g * 128, g * 128 + 128)) * 2 for g in range(3)]


@pytest.mark.feature("lockstep", "barriers in a uniform branch")
def test_barrier_in_a_uniform_branch() -> None:
    source = """
    kernel void k(device int* o, uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]],
                  uint g [[threadgroup_position_in_grid]], uint n [[threads_per_threadgroup]]) {
        threadgroup int s[64];
        s[t] = int(i);
        int x = -1;
        if (g == 1) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            x = s[(t + 1) % n];
        }
        o[i] = x;
    }"""
    out = line(128)
    launch(source, out, threads=128, group_size=64)
    assert out.tolist() == [-1] * 64 + [*range(65, 128), 64]


@pytest.mark.feature("lockstep", "early return before a barrier")
def test_early_return() -> None:
    source = """
    kernel void k(device int* o, constant uint& n, uint i [[thread_position_in_grid]],
        uint t [[thread_index_in_threadgroup]]) {
        threadgroup int s[128];
        s[t] = 5;
        if (i >= n) return;
        s[t] = int(i);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        o[i] = s[t ^ 1];
    }"""
    out = np.full(128, -7, np.int32)
    launch(source, out, 37, threads=128, group_size=128)
    assert out.tolist() == [i ^ 1 if i < 36 else 5 for i in range(37)] + [-7] * 91


@pytest.mark.feature("lockstep", "a whole simdgroup returns before a barrier")
def test_simdgroup_returns_early() -> None:
    source = """
    kernel void k(device int* o, uint t [[thread_index_in_threadgroup]], uint sg [[simdgroup_index_in_threadgroup]]) {
        threadgroup int s[96];
        s[t] = int(t);
        if (sg == 1) return;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        o[t] = s[(t + 64) % 96];
    }"""
    out = np.full(96, -7, np.int32)
    launch(source, out, threads=96, group_size=96)
    assert out.tolist() == [*range(64, 96), *[-7] * 32, *range(32, 64)]


@pytest.mark.feature("threadgroup memory", "[[threadgroup(n)]] arguments sized by the launch")
def test_dynamic_memory() -> None:
    source = """
    kernel void k(device int* o, threadgroup int* a [[threadgroup(0)]], threadgroup short* b [[threadgroup(1)]],
                  uint t [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
        a[t] = int(t) * 3;
        b[t] = short(t);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        o[t] = a[n - 1 - t] * 100 + b[(t + 1) % n];
    }"""
    out = line(40)
    launch(source, out, threads=40, group_size=40, memory={0: 160, 1: 80})
    assert out.tolist() == [(39 - t) * 300 + (t + 1) % 40 for t in range(40)]


@pytest.mark.feature("threadgroup memory", "static and dynamic memory side by side")
def test_static_and_dynamic() -> None:
    source = """
    kernel void k(device int* o, threadgroup int* a [[threadgroup(0)]], uint t [[thread_index_in_threadgroup]]) {
        threadgroup int s[32];
        threadgroup float f;
        a[t] = 1000 + int(t); s[t] = int(t);
        if (t == 0) f = 0.5f;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        o[t] = a[31 - t] + s[(t + 1) % 32] * 10000 + int(f * 2) * 1000000;
    }"""
    out = line(32)
    launch(source, out, threads=32, memory={0: 128})
    assert out.tolist() == [1031 - t + (t + 1) % 32 * 10000 + 1000000 for t in range(32)]


@pytest.mark.feature("threadgroup memory", "structs, vectors and two-dimensional arrays in threadgroup memory")
def test_shapes_of_memory() -> None:
    source = """
    struct P { float3 v; short n; };
    kernel void k(device float* o, uint t [[thread_index_in_threadgroup]]) {
        threadgroup P p[8];
        threadgroup float m[8][9];
        threadgroup float4 q[8];
        p[t].v = float3(t, t + 1, t + 2); p[t].n = short(t * 10);
        for (uint j = 0; j < 8; ++j) m[t][j] = float(t * 8 + j);
        q[t] = float4(float(t));
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint u = 7 - t;
        o[t] = p[u].v.z + p[u].n + m[t][u] * 1000 + m[u][t] + q[u].w;
    }"""
    out = np.zeros(8, np.float32)
    launch(source, out, threads=8)
    assert out.tolist() == [
        (u + 2) + u * 10 + (t * 8 + u) * 1000 + (u * 8 + t) + u for t, u in ((t, 7 - t) for t in range(8))
    ]


@pytest.mark.feature("threadgroup memory", "threadgroup pointers passed to functions")
def test_pointer_to_function() -> None:
    source = """
    int total(threadgroup const int* p, uint n) { int s = 0; for (uint i = 0; i < n; ++i) s += p[i]; return s; }
    template <typename T> void put(threadgroup T* p, uint t, T v) { p[t] = v; }
    kernel void k(device int* o, uint t [[thread_index_in_threadgroup]]) {
        threadgroup int s[64];
        put(s, t, int(t));
        threadgroup_barrier(mem_flags::mem_threadgroup);
        o[t] = total(s + t, 64 - t);
    }"""
    out = line(64)
    launch(source, out, threads=64, group_size=64)
    assert out.tolist() == [sum(range(t, 64)) for t in range(64)]


@pytest.mark.feature("threadgroup memory", "barriers called in a helper function")
def test_barrier_in_a_function() -> None:
    source = """
    int swap(threadgroup int* s, uint t, int v) {
        s[t] = v;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int r = s[t ^ 33];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        return r;
    }
    kernel void k(device int* o, uint t [[thread_index_in_threadgroup]]) {
        threadgroup int s[64];
        int x = swap(s, t, int(t));
        x = swap(s, t, x * 2);
        o[t] = x;
    }"""
    out = line(64)
    launch(source, out, threads=64, group_size=64)
    assert out.tolist() == [t * 2 for t in range(64)]


@pytest.mark.feature("threadgroup memory", "device memory shared in a group over mem_device barriers")
def test_device_barrier() -> None:
    source = """
    kernel void k(device int* o, device int* scratch, uint t [[thread_index_in_threadgroup]]) {
        scratch[t] = int(t) * 7;
        threadgroup_barrier(mem_flags::mem_device);
        o[t] = scratch[99 - t];
    }"""
    out = line(100)
    launch(source, out, line(100), threads=100, group_size=128)
    assert out.tolist() == [(99 - t) * 7 for t in range(100)]


@pytest.mark.feature("threadgroup memory", "simdgroup_barrier")
def test_simdgroup_barrier() -> None:
    source = """
    kernel void k(device int* o, uint t [[thread_index_in_threadgroup]]) {
        threadgroup int s[64];
        s[t] = int(t);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        o[t] = s[t ^ 31];
    }"""
    out = line(64)
    launch(source, out, threads=64, group_size=64)
    assert out.tolist() == [t ^ 31 for t in range(64)]


@pytest.mark.feature("threadgroup memory", "barriers with every flag and scope")
@pytest.mark.parametrize(
    "barrier",
    [
        "threadgroup_barrier(mem_flags::mem_none)",
        "threadgroup_barrier(mem_flags::mem_device_and_threadgroup)",
        "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device)",
        "threadgroup_barrier(metal::mem_flags::mem_threadgroup)",
        "simdgroup_barrier(mem_flags::mem_none)",
        "atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device)",
    ],
)
def test_flags(barrier: str) -> None:
    out = line(40)
    launch(
        f"kernel void k(device int* o, uint t [[thread_index_in_threadgroup]]) {{ {barrier}; o[t] = int(t); "
        f"{barrier}; o[t] += 1; }}",
        out,
        threads=40,
        group_size=40,
    )
    assert out.tolist() == list(range(1, 41))


@pytest.mark.feature("threadgroup memory", "values live across a barrier")
def test_values_live_across_a_barrier() -> None:
    source = """
    kernel void k(device int* o, uint t [[thread_index_in_threadgroup]]) {
        threadgroup int s[96];
        int a[4]; long b = long(t) << 33; half h = half(t) * 0.5h;
        for (int i = 0; i < 4; ++i) a[i] = int(t) * (i + 1);
        s[t] = int(t & 3);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int j = s[95 - t];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        o[t] = a[j] * 10 + int(b >> 33) + int(h * 2);
    }"""
    out = line(96)
    launch(source, out, threads=96, group_size=96)
    assert out.tolist() == [t * (((95 - t) & 3) + 1) * 10 + 2 * t for t in range(96)]


@pytest.mark.feature("rejected", "threadgroup memory over 32 KiB")
def test_too_much_memory() -> None:
    with pytest.raises(LaunchError, match="32"):
        launch(
            "kernel void k(device int* o, threadgroup int* s [[threadgroup(0)]]) { s[0] = 1; o[0] = s[0]; }",
            line(1),
            threads=1,
            memory={0: 40000},
        )
    with pytest.raises((LaunchError, SyntaxError), match="32"):
        launch(
            "kernel void k(device int* o, uint t [[thread_index_in_threadgroup]]) { threadgroup int s[9000]; "
            "s[t] = 1; o[t] = s[8999 - t]; }",
            line(1),
            threads=1,
        )


@pytest.mark.feature("API", "static threadgroup memory is reported")
def test_reported_memory() -> None:
    function = metalcore.Library(HEADER + REVERSE).function("k")
    assert function.static_threadgroup_memory == 1024

"""More shapes of kernels that a lockstep compiler can get wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.language.helpers import feature, launch, per_thread

CASES = [
    feature(
        "lockstep",
        "vector components indexed by a varying value",
        "",
        "int4 v = int4(10, 20, 30, 40); v[tid] += 1; out[gid] = v[3 - tid] + v[0];",
        [51, 40, 30, 20],
    ),
    feature(
        "lockstep",
        "arrays of vectors in a private array",
        "",
        "float2 a[3] = {float2(1, 2), float2(3, 4), float2(5, 6)}; a[tid % 3].y *= 10; "
        "out[gid] = int(a[tid % 3].y + a[2].y);",
        [26, 46, 120, 26],
    ),
    feature(
        "lockstep",
        "private arrays passed to functions",
        "int sum(thread const int* p, int n) { int s = 0; for (int i = 0; i < n; ++i) s += p[i]; return s; }"
        " void fill(thread int (&p)[5], int v) { for (int i = 0; i < 5; ++i) p[i] = v + i; }",
        "int a[5]; fill(a, int(tid)); out[gid] = sum(a, int(tid) + 1) * 100 + sum(a + 1, 2);",
        [3, 305, 907, 1809],
    ),
    feature(
        "lockstep",
        "structs that hold arrays, by value",
        "struct S { int n; int a[3]; }; S push(S s, int v) { s.a[s.n++] = v; return s; }",
        "S s = {0, {0, 0, 0}}; for (uint i = 0; i < tid; ++i) s = push(s, int(i) + 5); "
        "out[gid] = s.n * 1000 + s.a[0] * 100 + s.a[2];",
        [0, 1500, 2500, 3507],
    ),
    feature(
        "lockstep",
        "loops with two counters and a varying step",
        "",
        "int n = 0; for (uint i = tid, j = 20; i < j; i += tid + 1, j -= 2) ++n; out[gid] = n;",
        [7, 5, 4, 3],
    ),
    feature(
        "lockstep",
        "loops whose bound falls with the lane",
        "",
        "int n = 0; for (uint i = 0; i < 5 - tid; ++i) n += int(i) + 1; out[gid] = n;",
        [15, 10, 6, 3],
    ),
    feature(
        "lockstep",
        "loops that count down",
        "",
        "int n = 0; for (int i = int(tid); i >= 0; --i) n = n * 10 + i; out[gid] = n;",
        [0, 10, 210, 3210],
    ),
    feature(
        "lockstep",
        "a divergent loop inside a uniform loop",
        "",
        "int n = 0; for (int i = 0; i < 3; ++i) { for (uint j = 0; j < tid; ++j) n += i; n += 100; } out[gid] = n;",
        [300, 303, 306, 309],
    ),
    feature(
        "lockstep",
        "a uniform loop inside a divergent loop",
        "",
        "int n = 0; for (uint j = 0; j < tid; ++j) { for (int i = 0; i < 3; ++i) n += i; } out[gid] = n;",
        [0, 3, 6, 9],
    ),
    feature(
        "lockstep",
        "values of the first and the last round of a loop",
        "",
        "int first = -1, last = -1; for (int i = 0; i < 9; ++i) { if ((i + int(tid)) % 4 == 3) { "
        "if (first < 0) first = i; last = i; } }"
        " out[gid] = first * 10 + last;",
        [37, 26, 15, 8],
    ),
    feature(
        "lockstep",
        "a loop that some threads never enter",
        "",
        "int n = 7; if (tid > 1) { n = 0; while (n < int(tid) * 2) n += 3; } out[gid] = n;",
        [7, 7, 6, 6],
    ),
    feature(
        "lockstep",
        "selection of whole structs by a condition",
        "struct P { int a; float b; int2 c; };",
        "P p = {1, 2.5f, int2(3, 4)}, q = {10, 20.5f, int2(30, 40)}; P r = tid & 1 ? p : q; "
        "out[gid] = r.a + int(r.b * 2) + r.c.y;",
        [91, 10, 91, 10],
    ),
]


@pytest.mark.parametrize(("before", "body", "expected"), CASES)
def test_forms(before: str, body: str, expected: list[Any]) -> None:
    assert per_thread(body, before=before) == expected


@pytest.mark.feature("lockstep", "functions with several returns in loops")
def test_several_returns() -> None:
    before = (
        "int find(int x) { for (int i = 0; i < 4; ++i) { if (i * i == x) return i; if (i > x) return -i; } return 99; }"
    )

    def find(x: int) -> int:
        for i in range(4):
            if i * i == x:
                return i
            if i > x:
                return -i
        return 99

    body = "out[gid] = find(int(tid));"
    assert per_thread(body, threads=12, before=before) == [find(x) for x in range(12)]


@pytest.mark.feature("lockstep", "pointers that walk through a buffer")
def test_walking_pointers() -> None:
    data = np.arange(40, dtype=np.int32)
    out = np.zeros(5, np.int32)
    source = """
    kernel void k(device const int* in, device int* out, uint i [[thread_position_in_grid]],
        uint n [[threads_per_grid]]) {
        device const int* p = in + i;
        int s = 0;
        for (uint j = 0; j < i + 3; ++j, p += n) s += *p;
        out[i] = s;
    }"""
    launch(source, data, out, threads=5)
    assert out.tolist() == [sum(data[i::5][: i + 3].tolist()) for i in range(5)]


@pytest.mark.feature("lockstep", "threadgroup arrays chosen by a branch")
def test_threadgroup_pointer_by_branch() -> None:
    source = """
    kernel void k(device int* o, uint t [[thread_index_in_threadgroup]]) {
        threadgroup int a[64], b[64];
        a[t] = int(t); b[t] = int(t) * 100;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        threadgroup const int* p = t % 3 == 0 ? a : b;
        o[t] = p[63 - t];
    }"""
    out = np.zeros(64, np.int32)
    launch(source, out, threads=64, group_size=64)
    assert out.tolist() == [(63 - t) * (1 if t % 3 == 0 else 100) for t in range(64)]


@pytest.mark.feature("threadgroup memory", "threadgroup arrays sized by a template parameter")
def test_template_threadgroup_array() -> None:
    source = """
    template <typename T, int N>
    kernel void rotate(device T* o [[buffer(0)]], uint t [[thread_index_in_threadgroup]]) {
        threadgroup T s[N];
        s[t] = o[t];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        o[t] = s[(t + 1) % N];
    }
    template [[host_name("rotate_40")]] [[kernel]] decltype(rotate<short, 40>) rotate<short, 40>;
    """
    data = np.arange(40, dtype=np.int16)
    launch(source, data, name="rotate_40", threads=40, group_size=40)
    assert data.tolist() == [*range(1, 40), 0]


@pytest.mark.feature("atomics", "compare-exchange loops make progress in lockstep")
@pytest.mark.parametrize("threads", [32, 100])
def test_compare_exchange_loop(threads: int) -> None:
    """All threads add to one float through the bits of a uint: each must get its turn."""
    source = """
    kernel void k(device atomic_uint* sum, uint i [[thread_position_in_grid]]) {
        uint old = atomic_load_explicit(sum, memory_order_relaxed);
        while (true) {
            uint wanted = as_type<uint>(as_type<float>(old) + float(i));
            if (atomic_compare_exchange_weak_explicit(sum, &old, wanted, memory_order_relaxed,
                memory_order_relaxed)) break;
        }
    }"""
    total = np.zeros(1, np.uint32)
    launch(source, total, threads=threads, group_size=64)
    assert total.view(np.float32)[0] == threads * (threads - 1) / 2


@pytest.mark.feature("atomics", "atomics under divergence")
def test_atomics_under_divergence() -> None:
    source = """
    kernel void k(device atomic_int* count, device atomic_uint* high, uint i [[thread_position_in_grid]]) {
        for (uint j = 0; j < i % 5; ++j) {
            if (j == 2) continue;
            atomic_fetch_add_explicit(&count[j], 1, memory_order_relaxed);
        }
        if (i % 7 == 3) atomic_fetch_max_explicit(high, i * 10, memory_order_relaxed);
    }"""
    count, high = np.zeros(5, np.int32), np.zeros(1, np.uint32)
    launch(source, count, high, threads=100, group_size=64)
    expected = [0] * 5
    for i in range(100):
        for j in range(i % 5):
            expected[j] += j != 2
    assert count.tolist() == expected
    assert high[0] == max(i for i in range(100) if i % 7 == 3) * 10


@pytest.mark.feature("lockstep", "memory that two threads of a simdgroup write in turn keeps the order of the program")
def test_store_order() -> None:
    source = """
    kernel void k(device int* o, device int* own, uint i [[thread_position_in_grid]]) {
        own[i] = 1;
        if (i & 1) own[i] = own[i] + 10;
        own[i] *= 3;
        o[i] = own[i];
    }"""
    out = np.zeros(40, np.int32)
    launch(source, out, np.zeros(40, np.int32), threads=40)
    assert out.tolist() == [33 if i & 1 else 3 for i in range(40)]


STRIDES = [1, 2, 3, 4, 5, 7, 8, 16]


@pytest.mark.feature("lockstep", "strided reads and writes")
@pytest.mark.parametrize("stride", STRIDES)
def test_strides(stride: int) -> None:
    count = 70
    data = np.arange(count * stride, dtype=np.int32)
    out = np.full(count * stride, -1, np.int32)
    source = f"""
    kernel void k(device const int* in, device int* o, uint i [[thread_position_in_grid]]) {{
        for (uint j = 0; j < {stride}; ++j) o[i * {stride} + j] = in[i * {stride} + ({stride} - 1 - j)] * 2;
    }}"""
    launch(source, data, out, threads=count, group_size=32)
    expected = data.reshape(count, stride)[:, ::-1].reshape(-1) * 2
    assert out.tolist() == expected.tolist()


@pytest.mark.feature("lockstep", "reversed reads")
def test_reversed() -> None:
    data, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    source = (
        "kernel void k(device const float* in, device float* o, uint i [[thread_position_in_grid]]) { "
        "o[i] = in[99 - i]; }"
    )
    launch(source, data, out, threads=100, group_size=64)
    assert out.tolist() == data[::-1].tolist()


@pytest.mark.feature("lockstep", "narrow types read and written in lines")
@pytest.mark.parametrize(
    "name", ["char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float", "bool"]
)
def test_narrow_lines(name: str) -> None:
    words = {
        "char": "int8",
        "short": "int16",
        "int": "int32",
        "long": "int64",
        "half": "float16",
        "float": "float32",
        "bool": "bool",
    }
    dtype = np.dtype(words.get(name) or "u" + words[name[1:]])
    data = (np.arange(70) % 100).astype(dtype)
    out = np.zeros(70, dtype)
    source = f"""
    kernel void k(device const {name}* in, device {name}* o, uint i [[thread_position_in_grid]]) {{
        if (i % 3 != 1) o[i] = in[i];
    }}"""
    launch(source, data, out, threads=70, group_size=64)
    assert out.tolist() == [v if i % 3 != 1 else 0 for i, v in enumerate(data.tolist())]

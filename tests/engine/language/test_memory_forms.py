"""Private arrays, pointers, structs, unions, bit-fields and constant tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault, UnsupportedFeature
from tests.engine.language.helpers import feature, launch, per_thread

CASES = [
    feature(
        "lockstep",
        "private arrays indexed by a varying value",
        "",
        "int a[4] = {10, 20, 30, 40}; a[tid] += 1; a[3 - tid] += 5; out[gid] = a[tid] * 100 + a[0];",
        [1111, 2110, 3110, 4115],
    ),
    feature(
        "lockstep",
        "private arrays written in a divergent loop",
        "",
        "int a[8]; for (int i = 0; i < 8; ++i) a[i] = i; for (uint i = 0; i < tid; ++i) a[(i * 3 + tid) & 7] = 50;"
        " int s = 0; for (int i = 0; i < 8; ++i) s += a[i]; out[gid] = s;",
        [28, 77, 121, 168],
    ),
    feature(
        "lockstep",
        "two-dimensional private arrays",
        "",
        "int a[2][3] = {{1, 2, 3}, {4, 5, 6}}; out[gid] = a[tid & 1][tid % 3];",
        [1, 5, 3, 4],
    ),
    feature(
        "lockstep",
        "structs by value",
        "struct P { int a; float b; }; P swap(P p) { P q; q.a = int(p.b); q.b = float(p.a); return q; }",
        "P p = {int(tid), 2.5f}; if (tid > 1) p = swap(p); out[gid] = p.a * 10 + int(p.b);",
        [2, 12, 22, 23],
    ),
    feature(
        "lockstep",
        "arrays of structs",
        "struct P { short a; int b; };",
        "P p[3] = {{1, 2}, {3, 4}, {5, 6}}; p[tid % 3].b += 100; out[gid] = p[tid % 3].a * 1000 + p[1].b;",
        [1004, 3104, 5004, 1004],
    ),
    feature(
        "language",
        "unions",
        "union U { float f; uint u; uchar4 c; };",
        "U u; u.f = 1.0f; u.u += tid << 23; out[gid] = int(u.f) * 1000 + u.c.w;",
        [1063, 2064, 4064, 8065],
    ),
    feature(
        "language",
        "bit-fields",
        "struct B { uint low : 4; uint high : 12; int s : 3; };",
        "B b; b.low = tid + 14; b.high = 4095 + tid; b.s = 3 + int(tid); "
        "out[gid] = b.low + b.high * 16 + b.s * 100000;",
        [14 + 65520 + 300000, 15 - 400000, 16 - 300000, 1 + 32 - 200000],
    ),
    feature(
        "language",
        "methods, constructors and operators of structs",
        "struct V { int x; V(int a) : x(a) {} int twice() const { return 2 * x; } V operator+(V o) const { "
        "return V(x + o.x); } };",
        "V v = V(int(tid)) + V(5); out[gid] = v.twice();",
        [10, 12, 14, 16],
    ),
    feature(
        "language",
        "constant tables at file scope",
        "constant int table[4] = {7, 5, 3, 1}; constant constexpr int two = 2;",
        "out[gid] = table[tid] * two + table[3 - tid];",
        [15, 13, 11, 9],
    ),
    feature(
        "language",
        "constant structs at file scope",
        "struct C { int a; float b[2]; }; constant C c = {4, {0.5f, 1.5f}};",
        "out[gid] = c.a + int(c.b[tid & 1] * 10);",
        [9, 19, 9, 19],
    ),
    feature(
        "language",
        "constant tables of nested structs",
        "struct I { short a; int b; }; struct O { I i[2]; char c; }; constant O os[2] = {{{{1, 2}, {3, 4}}, "
        "5}, {{{6, 7}, {8, 9}}, 10}};",
        "out[gid] = os[tid & 1].i[tid >> 1].b * 100 + os[tid >> 1].c;",
        [205, 705, 410, 910],
    ),
    feature(
        "language",
        "references and pointers to private variables",
        "void add(thread int& x, thread const int* y) { x += *y; }",
        "int a = int(tid), b = 3; add(a, &b); add(b, &a); out[gid] = a * 100 + b;",
        [306, 407, 508, 609],
    ),
    feature(
        "lockstep",
        "pointers to private variables chosen by a branch",
        "",
        "int a = 1, b = 2; thread int* p = tid & 1 ? &a : &b; *p += 10; out[gid] = a * 100 + b;",
        [112, 1102, 112, 1102],
    ),
    feature(
        "language",
        "enumerations and scoped enumerations",
        "enum E { A = 3, B }; enum class F : uchar { X = 250, Y };",
        "out[gid] = (tid & 1 ? A : B) * 1000 + int(F::Y);",
        [4251, 3251, 4251, 3251],
    ),
    feature(
        "language",
        "inheritance of structs",
        "struct A { int x; int get() const { return x; } }; struct B : A { int y; };",
        "B b; b.x = int(tid); b.y = 7; out[gid] = b.get() * 10 + b.y;",
        [7, 17, 27, 37],
    ),
    feature(
        "language",
        "static constexpr members",
        "struct K { static constexpr constant int size = 3; }; template <int N> struct T { "
        "static constant constexpr int n = N * 2; };",
        "out[gid] = K::size + T<4>::n + int(tid);",
        [11, 12, 13, 14],
    ),
    feature(
        "language",
        "namespaces and using",
        "namespace a { namespace b { int f(int x) { return x + 1; } } } using namespace a; using Int = int; "
        "typedef Int Word;",
        "Word x = Word(tid); out[gid] = b::f(x);",
        [1, 2, 3, 4],
    ),
    feature(
        "language",
        "integer promotion and wrap-around of narrow types",
        "",
        "char c = char(127 + tid); uchar u = uchar(250 + tid * 3); ushort s = ushort(u * u); "
        "out[gid] = c * 100000 + u + s;",
        [
            127 * 100000 + 250 + 62500,
            -128 * 100000 + 253 + 64009,
            -127 * 100000 + 0 + 0,
            -126 * 100000 + 3 + 9,
        ],
    ),
    feature(
        "language",
        "char is signed",
        "",
        "char c = char(0x80 + tid); out[gid] = c;",
        [-128, -127, -126, -125],
    ),
]


@pytest.mark.parametrize(("before", "body", "expected"), CASES)
def test_memory_forms(before: str, body: str, expected: list[Any]) -> None:
    assert per_thread(body, before=before) == expected


@pytest.mark.feature("lockstep", "pointers to buffers chosen by a branch")
def test_pointer_chosen_by_a_branch() -> None:
    a, b = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) * -10
    out = np.zeros(8, np.float32)
    source = """
    kernel void k(device const float* a, device const float* b, device float* out, uint i [[thread_position_in_grid]]) {
        device const float* p = i % 3 == 0 ? a : b;
        if (i == 4) p = a + 3;
        out[i] = p[i % 5];
    }"""
    launch(source, a, b, out, threads=8)
    assert out.tolist() == [0, -10, -20, 3, 7, 0, 1, -20]


@pytest.mark.feature("lockstep", "stores through a pointer chosen by a branch")
def test_store_through_a_chosen_pointer() -> None:
    a, b = np.zeros(6, np.int32), np.zeros(6, np.int32)
    source = """
    kernel void k(device int* a, device int* b, uint i [[thread_position_in_grid]]) {
        device int* p = (i & 1) ? a : b;
        p[i] = int(i) + 1;
    }"""
    launch(source, a, b, threads=6)
    assert a.tolist() == [0, 2, 0, 4, 0, 6]
    assert b.tolist() == [1, 0, 3, 0, 5, 0]


@pytest.mark.feature("language", "structs in buffers, with the layout of C++")
def test_struct_layout() -> None:
    layout = np.dtype([("a", "u1"), ("b", "<f4"), ("c", "<i2")], align=True)
    items = np.zeros(4, layout)
    items["a"], items["b"], items["c"] = [1, 2, 3, 4], [0.5, 1.5, 2.5, 3.5], [-1, -2, -3, -4]
    out = np.zeros(4, np.float32)
    source = """
    struct S { uchar a; float b; short c; };
    kernel void k(device S* items, device float* out, uint i [[thread_position_in_grid]]) {
        S s = items[i];
        out[i] = s.a + s.b + s.c;
        items[i].c = short(items[i].c * 10);
    }"""
    launch(source, items.view(np.uint8), out, threads=4)
    assert out.tolist() == [0.5, 1.5, 2.5, 3.5]
    assert items["c"].tolist() == [-10, -20, -30, -40]


@pytest.mark.feature("language", "pointers reinterpreted as another type")
def test_reinterpreted_pointer() -> None:
    data = np.arange(4, dtype=np.float32)
    out = np.zeros(8, np.uint16)
    source = """
    kernel void k(device float* data, device ushort* out, uint i [[thread_position_in_grid]]) {
        device ushort* words = (device ushort*)data;
        out[i] = reinterpret_cast<device const ushort*>(data)[i];
        if (i == 7) words[7] = 0x4000;
    }"""
    launch(source, data, out, threads=8)
    assert out.tolist() == np.arange(4, dtype=np.float32).view(np.uint16).tolist()
    assert data[3] == 2.0


@pytest.mark.feature("language", "64-bit integers")
def test_64_bit_integers() -> None:
    out = np.zeros(3, np.int64)
    source = """
    kernel void k(device long* out, constant long& big, uint i [[thread_position_in_grid]]) {
        ulong x = ulong(big) * (i + 1);
        out[i] = long(x >> 1) - (1l << 40) * long(i);
    }"""
    launch(source, out, np.int64(2**45 + 5), threads=3)
    assert out.tolist() == [((2**45 + 5) * (i + 1) >> 1) - (1 << 40) * i for i in range(3)]


@pytest.mark.feature("language", "volatile and coherent device buffers")
def test_volatile_buffers() -> None:
    out = np.zeros(4, np.int32)
    source = """
    kernel void k(volatile device int* out, uint i [[thread_position_in_grid]]) { out[i] = int(i) * 3; out[i] += 1; }
    """
    launch(source, out, threads=4)
    assert out.tolist() == [1, 4, 7, 10]


@pytest.mark.feature("language", "an index past the end of a private array is an error")
def test_past_a_private_array() -> None:
    source = """
    kernel void k(device float* out, constant int& n, uint i [[thread_position_in_grid]]) {
        float w[8] = {};
        for (int j = 0; j < n; j++) w[j] = out[i] + j;
        for (int j = 0; j < 8; j++) out[i] += w[j];
    }"""
    out = np.ones(64, np.float32)
    launch(source, out, 8, threads=64)
    assert (out == 1 + 8 + 28).all()
    with pytest.raises(KernelFault, match=r"write out of bounds at .*:6:\d+ .* past an end of the private array 'w'"):
        launch(source, out, 12, threads=64)


KEPT = """kernel void k(device uint* o, device const uint* b, uint i [[thread_position_in_grid]]) {
  uint a[4] = {1, 2, 3, 4}, d[4] = {5, 6, 7, 8};
  thread uint* kept[2] = {a, d};
  o[i] = kept[b[i] & 1][b[i] & 3]; }"""


@pytest.mark.feature("not yet", "pointers to private arrays, picked from an array at run time (fast mode has them)")
def test_pointers_to_private_arrays_in_an_array() -> None:
    o, b = np.zeros(32, np.uint32), np.arange(32, dtype=np.uint32)
    function = metalcore.Library(KEPT).function("k")
    for mode in ("checked", "sanitize"):
        with metalcore.mode(mode), pytest.raises(UnsupportedFeature, match="a pointer to a private array that is kept"):
            function(o, b, threads=32)
    with metalcore.mode("fast"):
        function(o, b, threads=32)
    assert o.tolist() == [(1, 2, 3, 4, 5, 6, 7, 8)[4 * (i & 1) + (i & 3)] for i in range(32)]

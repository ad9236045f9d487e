"""Parameters of kernels: how they are numbered, and every way to take a value."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import metalcore
from tests.engine.language.helpers import HEADER, launch


def numbering(source: str, name: str = "k") -> dict[str, int]:
    return {a.name: a.index for a in metalcore.Library(HEADER + source).function(name).arguments if a.kind != "builtin"}


@pytest.mark.feature("language", "buffers without indices are numbered in order")
def test_no_indices() -> None:
    source = (
        "kernel void k(device int* a, constant int& b, device int* c, uint i [[thread_position_in_grid]]) { "
        "c[i] = a[i] + b; }"
    )
    assert numbering(source) == {"a": 0, "b": 1, "c": 2}
    out = np.zeros(2, np.int32)
    launch(source, np.array([1, 2], np.int32), 40, out, threads=2)
    assert out.tolist() == [41, 42]


@pytest.mark.feature("language", "buffers with and without indices mixed")
def test_mixed_indices() -> None:
    source = (
        "kernel void k(device int* a, device int* b [[buffer(0)]], device int* c, "
        "device int* d [[buffer(5)]]) { a[0] = b[0] + c[0] + d[0]; }"
    )
    index = numbering(source)
    assert index["b"] == 0 and index["d"] == 5
    assert len(set(index.values())) == 4
    assert index["a"] == 1 and index["c"] == 2


@pytest.mark.feature("language", "indices as constant expressions")
def test_index_expressions() -> None:
    source = (
        "#define SLOT 1\nconstant constexpr int two = 2;\nkernel void k(device int* a [[buffer(SLOT + 1)]], "
        "device int* b [[buffer(two - 2)]]) { a[0] = b[0]; }"
    )
    assert numbering(source) == {"a": 2, "b": 0}


@pytest.mark.feature("language", "arguments by keyword")
def test_keywords() -> None:
    source = "kernel void k(device int* o, constant int& x, constant int& y) { o[0] = x * 10 + y; }"
    out = np.zeros(1, np.int32)
    launch(source, out, y=3, x=4, threads=1)
    assert out[0] == 43


@pytest.mark.feature("language", "values as constant references, pointers and arrays")
def test_values() -> None:
    source = """
    kernel void k(device float* o [[buffer(0)]], constant float& a [[buffer(1)]], constant float* b [[buffer(2)]],
                  constant float (&c)[2] [[buffer(3)]], device const float& d [[buffer(4)]]) {
        o[0] = a + b[1] * 10 + c[1] * 100 + d * 1000;
    }"""
    out = np.zeros(1, np.float32)
    launch(source, out, 1.0, [0.0, 2.0], [0.0, 3.0], np.array([4.0], np.float32), threads=1)
    assert out[0] == 4321


@pytest.mark.feature("language", "arrays as parameters")
def test_array_parameters() -> None:
    source = """
    int pick(constant int s[3], int i) { return s[i]; }
    kernel void k(device int* o [[buffer(0)]], constant int s[3] [[buffer(1)]], uint i [[thread_position_in_grid]]) {
        o[i] = pick(s, int(i)) + s[0];
    }"""
    out = np.zeros(3, np.int32)
    launch(source, out, [7, 8, 9], threads=3)
    assert out.tolist() == [14, 15, 16]


class Params(ctypes.Structure):
    _fields_ = [("n", ctypes.c_uint32), ("scale", ctypes.c_float), ("flag", ctypes.c_bool), ("big", ctypes.c_int64)]


@pytest.mark.feature("language", "structs as constant parameters")
def test_struct_parameter() -> None:
    source = """
    struct Params { uint n; float scale; bool flag; long big; };
    kernel void k(device float* o, constant Params& p, uint i [[thread_position_in_grid]]) {
        o[i] = i < p.n && p.flag ? float(i) * p.scale : float(p.big);
    }"""
    out = np.zeros(4, np.float32)
    launch(source, out, Params(2, 1.5, True, -9), threads=4)
    assert out.tolist() == [0, 1.5, -9, -9]
    record = np.array((3, 0.5, True, 8), np.dtype([("n", "u4"), ("s", "f4"), ("f", "?"), ("b", "i8")], align=True))
    launch(source, out, record[()], threads=4)
    assert out.tolist() == [0, 0.5, 1, 8]


@pytest.mark.feature("language", "vectors and matrices as constant parameters")
def test_vector_parameters() -> None:
    source = """
    kernel void k(device float* o, constant float3& v, constant uint2& u, constant float2x2& m) {
        float2 r = m * v.xy;
        o[0] = v.z + float(u.y) * 10 + r.x * 100 + r.y * 1000;
    }"""
    out = np.zeros(1, np.float32)
    launch(source, out, [1.0, 2.0, 5.0], np.array([0, 3], np.uint32), np.array([[1, 0], [0, 2]], np.float32), threads=1)
    assert out[0] == 5 + 30 + 100 + 4000


@pytest.mark.feature("language", "kernels without any argument but buffers, and with none that is used")
def test_unused_arguments() -> None:
    source = "kernel void k(device int* o, device int* unused, constant float& never) { o[0] = 5; }"
    out = np.zeros(1, np.int32)
    launch(source, out, None, None, threads=1)
    assert out[0] == 5


@pytest.mark.feature("language", "thread attributes on the parameters of ordinary functions")
def test_attributes_on_functions() -> None:
    source = """
    uint place(uint i [[thread_position_in_grid]], uint n [[threads_per_grid]]) { return n - 1 - i; }
    kernel void k(device uint* o, uint i [[thread_position_in_grid]], uint n [[threads_per_grid]]) {
        o[i] = place(i, n); }
    """
    out = np.zeros(3, np.uint32)
    launch(source, out, threads=3)
    assert out.tolist() == [2, 1, 0]


@pytest.mark.feature("language", "methods and constructors with an address space")
def test_address_space_methods() -> None:
    source = """
    struct V {
        float x;
        float get() const device { return x; }
        float get() const thread { return x; }
        float get() const constant { return x; }
        float get() const threadgroup { return x; }
        thread V& operator+=(float a) thread { x += a; return *this; }
        device V& operator+=(float a) device { x += a; return *this; }
        operator float() const device { return x; }
        operator float() const thread { return x; }
    };
    constant V fixed = {1.0f};
    kernel void k(device V* v, device float* o, uint i [[thread_position_in_grid]]) {
        threadgroup V shared;
        V mine = {5.0f};
        mine += 1.0f;
        v[0] += 10.0f;
        shared.x = 7.0f;
        o[0] = v[0].get(); o[1] = mine.get(); o[2] = fixed.get(); o[3] = shared.get(); o[4] = float(v[0]) + float(mine);
    }"""
    v, out = np.array([3], np.float32), np.zeros(5, np.float32)
    launch(source, v.view(np.uint8), out, threads=1)
    assert v[0] == 13
    assert out.tolist() == [13, 6, 1, 7, 19]


@pytest.mark.feature("language", "overloads on the address space of a pointer")
def test_overloads_on_space() -> None:
    source = """
    int where(device const int* p) { return 1; }
    int where(threadgroup const int* p) { return 2; }
    int where(constant const int* p) { return 3; }
    int where(thread const int* p) { return 4; }
    constant int table[1] = {0};
    kernel void k(device int* o) {
        threadgroup int s[1]; int t = 0;
        o[0] = where(o) * 1000 + where(s) * 100 + where(table) * 10 + where(&t);
    }"""
    out = np.zeros(1, np.int32)
    launch(source, out, threads=1)
    assert out[0] == 1234


@pytest.mark.feature("language", "templates deduce the address space of a pointer")
def test_deduced_space() -> None:
    source = """
    template <typename P> int second(P p) { return p[1]; }
    template <typename T> struct element; 
    template <typename T> struct element<device T*> { using type = T; };
    template <typename T> struct element<threadgroup T*> { using type = T; };
    kernel void k(device int* o, constant int* c) {
        threadgroup int s[2]; s[0] = 1; s[1] = 20;
        int t[2] = {0, 300};
        element<device int*>::type x = 4000;
        element<threadgroup int*>::type y = 50000;
        o[0] = second(c) + second(s) + second(t) + x + y;
    }"""
    out = np.zeros(1, np.int32)
    launch(source, out, [9, 1], threads=1)
    assert out[0] == 54321

"""Forms that public Metal files are written in and that C++ has no like for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import metalcore
from tests.engine.language.helpers import HEADER, Array, feature, per_thread

SCALARS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat", "float", "bool")


@pytest.mark.feature("types", "conversion from packed vectors of another element type")
@pytest.mark.parametrize("lanes", [2, 3, pytest.param(4, marks=pytest.mark.sweep)])
def test_packed_vectors_convert_to_every_element_type(lanes: int) -> None:
    """Cast and constructor, from device, constant, threadgroup and thread memory; values that every type holds."""
    values = [1, 2, 3, 4][:lanes]
    checks = []
    for source in SCALARS[:-1]:
        packed = f"packed_{source}{lanes}"
        checks.append(f"device {packed}* d{source} = (device {packed}*)(room + 16 * n); n += 4;")
        checks.append(f"*d{source} = {packed}({', '.join(f'{source}({v})' for v in values)});")
        checks.append(f"threadgroup {packed} s{source}; s{source} = *d{source}; {packed} t{source} = s{source};")
        for k, target in enumerate(SCALARS):
            wanted = f"{target}{lanes}({', '.join(f'{target}({v})' for v in values)})"
            given = (f"*d{source}", f"c{source}[0]", f"s{source}", f"t{source}")[k % 4]
            cast = f"{target}{lanes}({given})" if k % 2 else f"({target}{lanes})({given})"
            checks.append(f"ok += all({cast} == {wanted}) ? 1 : 0;")
            checks.append(f"ok += all({target}{lanes}(packed_{target}{lanes}({given})) == {wanted}) ? 1 : 0;")
    tables = "".join(
        f"constant packed_{s}{lanes} c{s}[1] = {{packed_{s}{lanes}({', '.join(f'{s}({v})' for v in values)})}};\n"
        for s in SCALARS[:-1]
    )
    body = "uint n = 0; int ok = 0;\n" + "\n".join(checks) + "\no[i] = ok;"
    source = f"{HEADER}{tables}kernel void k(device int* o, device uchar* room, uint i [[thread_index_in_threadgroup]])"
    out = np.zeros(1, np.int32)
    metalcore.Library(f"{source} {{ {body} }}").function("k")(out, np.zeros(16 * 64, np.uint8), threads=1, group_size=1)
    assert out[0] == 2 * 11 * 12


FORMS = [
    feature(
        "types",
        "vectors from fewer initialisers: the rest is zero",
        "",
        "uint a = gid; uint4 k = {a, 2, 3}; out[gid] = k.x + 10 * k.z + 100 * k.w;",
        [30, 31, 32, 33],
    ),
    feature(
        "types",
        "fewer initialisers assigned to vectors",
        "struct S { uint4 v; packed_float3 p; };",
        (
            "uint a = gid; S s; s.v = uint4(9); s.v = {a, 2}; s.p = {1, 2}; threadgroup uint3 t; t = {3, 4}; "
            "out[gid] = s.v.x + 10 * s.v.y + 100 * s.v.z + 1000 * s.p.y + 10000 * s.p.z + 100000 * t.y + t.z;"
        ),
        [402020, 402021, 402022, 402023],
    ),
    feature(
        "types",
        "vectors from one initialiser in braces: the rest is zero",
        (
            "struct S { uint4 v; float3 w = {2.0f}; packed_float3 p; };\nconstant float4 t[2] = {{1.0f}, {2.0f}};\n"
            "uint2 f(uint b) { return {b}; }\nfloat g(float4 v) { return v.x + v.y; }\n"
            "template <typename T> vec<T, 2> h(T x) { vec<T, 2> q{x}; return q + vec<T, 2>{x}; }\n"
            "uint sum(uint4 v) { return v.x + v.y + v.z + v.w; }"
        ),
        (
            "uint a = gid + 1; uint4 k = {a}, l{a}, m; m = {a}; S s = {{a}}; s.p = {3}; "
            "out[gid] = sum(k) + sum(l) + sum(m) + sum(s.v) + s.w.x + s.w.y + s.p.x + s.p.z + t[1].x + t[1].w "
            "+ f(a).x + f(a).y + g({4.0f}) + g(float4{max(4.0f, 1.0f)}) + h(5).x + h(5).y;"
        ),
        [30, 35, 40, 45],
    ),
    feature(
        "types",
        "vectors from one value without braces: all elements",
        "float g(float4 v) { return v.x + v.w; }\ntemplate <typename T> T one() { return T{1}; }",
        (
            "uint4 k = gid, l(gid), m = {k}, n; n = gid; out[gid] = k.y + l.y + m.y + n.y + 100 * g(2.0f) "
            "+ 1000 * uint2(3).y + 10000 * one<int>();"
        ),
        [13400, 13404, 13408, 13412],
    ),
    feature(
        "types",
        "tables of vectors from fewer initialisers",
        "constant float3 t[70] = {" + "{1, 2}, " * 69 + "{3, 4}};",
        "out[gid] = t[69 - gid].y + t[gid].z;",
        [4, 2, 2, 2],
    ),
    feature(
        "types",
        "fewer initialisers in templates and members",
        "struct S { half3 a; int b; };\ntemplate <typename T> vec<T, 4> f(T x) { return {x, x}; }",
        "S s = {{1, 2}, 3}; float4 v = f(float(gid)); out[gid] = v.y + v.w + s.a.y + s.a.z + s.b;",
        [5, 6, 7, 8],
    ),
    feature(
        "types",
        "unions with vector members, copied",
        "union U { float4 f; uint4 u; };\nU twice(U u) { u.f *= 2; return u; }",
        "U a; a.f = float4(gid); U b = a, c; c = twice(b); out[gid] = as_type<float>(c.u.w);",
        [0, 2, 4, 6],
    ),
    feature(
        "types",
        "unions in unions, typedefs and templates, copied",
        (
            "typedef union { float2 f; uint u[2]; } U;\nstruct S { union { half4 h; ushort u[4]; }; int n; };\n"
            "template <typename T> union V { vec<T, 3> v; T s[3]; };"
        ),
        (
            "threadgroup S s[4]; U a = {float2(gid)}; U b = a; S x; x.h = half4(b.f.y); x.n = 1; s[tid] = x; "
            "S y = s[tid]; V<int> v; v.v = int3(5); V<int> w = v; out[gid] = y.h.w + y.n + w.s[2];"
        ),
        [6, 7, 8, 9],
    ),
    feature(
        "language",
        "a vector's size deduced as uint",
        (
            "template <typename T, uint N> T sum(vec<T, N> v) { T s = 0; for (uint i = 0; i < N; "
            "i++) s += v[i]; return s; }"
        ),
        "out[gid] = sum(int4(gid)) + sum(int2(1));",
        [2, 6, 10, 14],
    ),
    feature(
        "language",
        "a vector's size deduced as size_t, short, unsigned and as a user's type",
        (
            "typedef ushort Size;\ntemplate <size_t N, typename T> size_t a(thread vec<T, N>& v) "
            "{ v[N - 1] = 0; return N - 5; }\ntemplate <typename T, short N = 2> struct B { vec<T, N> v; };\n"
            "template <typename T, short N> T b(B<vec<T, N>> x, vec<T, N> y) { return N; }\n"
            "template <typename T, unsigned int N> vec<T, N> c(packed_vec<T, N> v) { vec<T, N> w = v; "
            "return w * T(N); }\ntemplate <typename T, Size N> int d(const device vec<T, N>* p) "
            "{ return sizeof(vec<T, N>) * N; }"
        ),
        (
            "int3 v = int3(1); bool wraps = a(v) > 100; out[gid] = wraps * 1000 "
            "+ c(packed_int2(1)).y * 100 + d((device int2*)out) + v.z;"
        ),
        [1216] * 4,
    ),
    feature(
        "language",
        "a matrix's and an array's size deduced as int, uint, ushort and size_t",
        (
            "template <typename T, uint C, ushort R> T a(matrix<T, C, R> m) "
            "{ return m[C - 1][R - 1] + (C - 3 > 9u) + R; }\n"
            "template <typename T, size_t C, int R> T b(matrix<T, C, R> m) { return C * 10 + R; }\n"
            "template <typename T, uint N> T c(array<T, N> x) { array<T, N> y = x; return y[N - 1]; }\n"
            "template <typename T, int N> int d(thread const metal::array<T, N>& x) { return N - 4; }\n"
            "template <typename T, size_t N> int e(array<T, N> x, array<vec<T, 2>, N> y) { return N; }\n"
            "namespace n { template <typename T, int N> struct array { T x[N]; };\n"
            "template <typename T, int N> int f(array<T, N> x) { return x.x[N - 1]; } }"
        ),
        (
            "array<int, 3> x = {1, 2, int(gid)}; array<int2, 3> y; n::array<int, 2> z = {1, 2}; "
            "out[gid] = a(float2x3(1, 2, 3, 4, 5, 6)) + 100 * b(half4x2(1.0h)) + 10000 * c(x) + d(x) + e(x, y) "
            "+ n::f(z);"
        ),
        [4214, 14214, 24214, 34214],
    ),
    feature(
        "types",
        "vec_elements, make_scalar and other private traits",
        (
            "template <typename T> struct I { T v; };\ntemplate <typename T> struct _make_scalar_impl<I<T>> "
            "{ typedef I<make_scalar_t<T>> type; };"
        ),
        (
            "out[gid] = metal::vec_elements<float3>::value + 10 * vec_elements<int>::value "
            "+ 100 * is_same_v<make_scalar_t<half4>, half> "
            "+ 1000 * is_same_v<make_scalar_t<I<int2>>, I<int>> "
            "+ 10000 * is_same_v<make_scalar<uint>::type, uint>;"
        ),
        [11103] * 4,
    ),
    feature(
        "simdgroup",
        "__is_valid_simdgroup_type",
        "",
        (
            "out[gid] = __is_valid_simdgroup_type<float>::value "
            "+ 10 * __is_valid_simdgroup_type<uchar3>::value "
            "+ 100 * __is_valid_simdgroup_type<long>::value "
            "+ 1000 * __is_valid_simdgroup_type<bfloat2>::value "
            "+ 10000 * __is_valid_simdgroup_type<bool>::value;"
        ),
        [11] * 4,
    ),
    feature(
        "language",
        "aggregates with constructors for other address spaces",
        (
            "struct R { uint c; float s; constexpr R() = default; constexpr R() threadgroup = default; };\n"
            "R f(uint c) { return {c, 1}; }"
        ),
        "threadgroup R r[4]; r[tid] = f(gid); R q = r[tid]; out[gid] = q.c + q.s;",
        [1, 2, 3, 4],
    ),
    feature(
        "language",
        "operator= overloaded on address space and defaulted",
        (
            "struct R { uint c; float s; thread R& operator=(thread const R&) thread = default; "
            "threadgroup R& operator=(thread const R& o) threadgroup { c = o.c; s = o.s + 1; return *this; "
            "} device R& operator=(device const R&) device = default; };"
        ),
        (
            "threadgroup R r[4]; R a; a.c = gid; a.s = 1; r[tid] = a; R b; b = a; R q = r[tid]; "
            "out[gid] = 10 * q.s + q.c + b.s;"
        ),
        [21, 22, 23, 24],
    ),
    feature(
        "language",
        "operator= for one address space beside C++'s own",
        (
            "struct R { uint c; threadgroup R& operator=(thread const R& o) threadgroup { c = o.c + 1; "
            "return *this; } };"
        ),
        "threadgroup R r[4]; R a = {gid}; R b; b = a; r[tid] = b; R q = r[tid]; out[gid] = q.c;",
        [1, 2, 3, 4],
    ),
    feature(
        "language",
        "a function of the user named as one of Metal's",
        (
            "inline float simd_sum(float x);\nfloat max(float a, float b) { return -1; }\n"
            "float simd_sum(float x) { return x + 1; }\ntemplate <typename T> T f(T x) { return simd_sum(x); }"
        ),
        "out[gid] = f(float(gid)) + max(1.0f, 2.0f) + metal::max(4.0f, 5.0f) * 10 + max(1, 2);",
        [52, 53, 54, 55],
    ),
    feature(
        "language",
        "a function added to namespace metal",
        "namespace metal { float simd_max(float x) { return x * 3; } }",
        "out[gid] = simd_max(float(gid));",
        [0, 3, 6, 9],
    ),
]


@pytest.mark.parametrize(("before", "body", "values"), FORMS)
def test_form(before: str, body: str, values: list[int]) -> None:
    assert per_thread(body, before=before) == values


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("uint4 v = uint4(1, 2, 3); out[gid] = v.x;", id="uint4(1, 2, 3)"),
        pytest.param("uint4 v(1, 2, 3); out[gid] = v.x;", id="uint4 v(1, 2, 3)"),
        pytest.param("float4 v = {float2(1), 2}; out[gid] = v.x;", id="a vector and a number"),
    ],
)
@pytest.mark.feature("rejected", "a vector constructed from fewer values")
def test_constructors_take_as_many_as_there_are(body: str) -> None:
    with pytest.raises(metalcore.errors.CompileError, match="no matching constructor for initialization of"):
        per_thread(body)


def test_calls_that_are_ambiguous_stay_so() -> None:
    with pytest.raises(metalcore.errors.CompileError, match="call to 'f' is ambiguous"):
        per_thread("out[gid] = f(1);", before="int f(float x) { return 1; }\nint f(half x) { return 2; }")


@pytest.mark.feature("language", "arrays at the end of a struct behind a pointer in a buffer")
@pytest.mark.parametrize("mode", ["checked", "fast", "sanitize"])
def test_pointer_to_a_struct_with_an_open_array(mode: str) -> None:
    source = f"""{HEADER}struct P {{ float2 v[1]; }};
struct T {{ device P* p; }};
kernel void k(constant T& t, uint i [[thread_position_in_grid]]) {{ t.p->v[i] = t.p->v[i].yx + float2(1); }}"""
    x = np.arange(64, dtype=np.float32).reshape(32, 2)
    wanted: Array = x[:, ::-1] + 1
    with metalcore.mode(mode):
        metalcore.Library(source).function("k")([x], threads=32, group_size=32)
    assert np.array_equal(x, wanted)


@pytest.mark.feature("language", "pragmas of loops that cannot be followed, silently")
def test_loop_pragmas_print_nothing() -> None:
    program = f"""
import numpy as np, metalcore
source = '''{HEADER}kernel void k(device float* o, constant uint& n, uint i [[thread_position_in_grid]]) {{
  float s = 0;
  _Pragma("clang loop unroll(full)") for (uint j = 0; j < n; j++) s += o[j];
  _Pragma("unroll") while (s < 10) s += o[1];
  _Pragma("clang loop vectorize(enable) unroll_count(4)")
  for (uint j = 0; j < n; j++) {{ s += o[j]; if (s > 50) break; }}
  _Pragma("clang loop vectorize(enable)") for (uint j = 0; j < 8; j++) o[8 + j] = s;
}}'''
o = np.arange(16, dtype=np.float32)
metalcore.Library(source).function("k")(o, 4, threads=1)
print(o[8], o[15])
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("16.0 16.0\n", "")


def test_tables_beside_a_constant_without_a_result() -> None:
    """What keeps clang from folding int(1e20f) leaves initialisers constant."""
    before = "constant float table[4] = {1.5f, 2.5f, 3.5f, 4.5f};"
    body = "threadgroup float s = 0.5f; out[gid] = int(1e20f) * 0 + int(table[gid] + s);"
    assert per_thread(body, before=before) == [2, 3, 4, 5]

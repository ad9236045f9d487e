"""vec<T, N>: layout, constructors, swizzles, operators, conversions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import metalcore
from tests.engine.include.probe import DTYPES, compiles, parts, probe, row

SCALARS = ("bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat", "float")
FOUR = np.array([[1, 2, 3, 4]], np.float32)


@pytest.mark.feature("types", "vector sizes and alignments")
def test_sizes_are_metals() -> None:
    names = [f"{s}{n}" for s in SCALARS for n in (2, 3, 4)]
    sizes = row([f"sizeof({n})" for n in names] + [f"alignof({n})" for n in names], "uint")
    expected = [DTYPES[s].itemsize * (4 if n == 3 else n) for s in SCALARS for n in (2, 3, 4)]
    assert sizes == expected * 2


@pytest.mark.feature("types", "vector constructors")
def test_constructors_take_any_mix() -> None:
    made = {
        "float4(v.x)": [1, 1, 1, 1],
        "float4(9, v.yz, 8)": [9, 2, 3, 8],
        "float4(v.xy, v.zw)": [1, 2, 3, 4],
        "float4(v.xyz, 7)": [1, 2, 3, 7],
        "float4(7, v.xyz)": [7, 1, 2, 3],
        "float4(v.xy, 5, 6)": [1, 2, 5, 6],
        "float4(5, 6, v.xy)": [5, 6, 1, 2],
        "float4(v)": [1, 2, 3, 4],
        "float4(int4(1, -2, 3, 4))": [1, -2, 3, 4],
        "float4(packed_float3(4, 5, 6), 1)": [4, 5, 6, 1],
        "vec<float, 4>(1, 2, v.xy)": [1, 2, 1, 2],
        "float4(half2(1.5h, 2.5h), 3, 4)": [1.5, 2.5, 3, 4],
    }
    values = row([c for e in made for c in parts(e, 4)], v=FOUR)
    assert values == [x for want in made.values() for x in want]
    three = {"float3(v.xy, 9)": [1, 2, 9], "float3(9, v.xy)": [9, 1, 2], "float3(half3(1, 2, 3))": [1, 2, 3]}
    assert row([c for e in three for c in parts(e, 3)], v=FOUR) == [x for want in three.values() for x in want]


def test_braces_and_empty_braces() -> None:
    setup = "float4 a = {1, 2, 3, 4}; float3 b = {}; int2 c{7, 8}; float2 d = 3;"
    values = row([*parts("a", 4), *parts("b", 3), *parts("c", 2), *parts("d", 2)], setup=setup)
    assert values == [1, 2, 3, 4, 0, 0, 0, 7, 8, 3, 3]


@pytest.mark.feature("types", "vector swizzles")
@pytest.mark.parametrize("letters", ["xyzw", "rgba"])
@pytest.mark.parametrize("lanes", [2, 3, pytest.param(4, marks=pytest.mark.sweep)])
def test_every_swizzle(letters: str, lanes: int) -> None:
    # Each swizzle becomes one number whose digits are its components; the kernel counts those that differ.
    weights = f"float{lanes}({', '.join(str(10**k) for k in reversed(range(lanes)))})"
    checks = []
    for name in map("".join, itertools.product(letters, repeat=lanes)):
        digits = "".join(str(letters.index(c) + 1) for c in name)
        checks.append(f"wrong += dot(v.{name}, {weights}) != {digits};")
    assert row(
        ["wrong", *parts(f"v.{letters[:lanes][::-1]}", lanes)], setup="int wrong = 0;" + "".join(checks), v=FOUR
    ) == [
        *(0, *range(lanes, 0, -1)),
    ]


@pytest.mark.feature("types", "swizzles as lvalues")
def test_swizzles_are_lvalues_in_each_address_space() -> None:
    header = """
kernel void write(device float4* d [[buffer(0)]], threadgroup float4* t [[threadgroup(0)]]) {
  d[0].yx = float2(20, 10);
  d[0].zw += d[0].xy;
  d[1].wzy = d[0].xyz;
  d[1].r *= 2;
  t[0] = float4(1, 2, 3, 4);
  t[0].xw = t[0].wx;
  t[0].yz *= 10;
  d[2] = t[0];
  float4 local = float4(0);
  local.bgra = float4(1, 2, 3, 4);
  local.xy++;
  d[3] = local;
}"""
    data = np.array([[1, 2, 3, 4]] * 4, np.float32)
    function = metalcore.Library("#include <metal_stdlib>\nusing namespace metal;\n" + header).function("write")
    function(data, threads=1, group_size=1, threadgroup_memory={0: 16})
    assert data.tolist() == [[10, 20, 13, 24], [2, 13, 20, 10], [4, 20, 30, 1], [4, 3, 1, 4]]


def test_a_repeated_component_cannot_be_written() -> None:
    with pytest.raises(SyntaxError):
        compiles("kernel void k(device float4* d [[buffer(0)]]) { d[0].xx = float2(1, 2); }")


@pytest.mark.parametrize("statement", ["d[0].xyz.yx = float2(1, 2);", "d[0].xy[1] = 1;"])
def test_a_write_to_a_temporary_is_refused(statement: str) -> None:
    # Metal writes through; here it would be lost, so it must not compile.
    with pytest.raises(SyntaxError):
        compiles(f"kernel void k(device float4* d [[buffer(0)]]) {{ {statement} }}")


def test_no_implicit_conversion_between_element_types() -> None:
    with pytest.raises(SyntaxError):
        compiles("kernel void k(device float4* d [[buffer(0)]], device int4* e [[buffer(1)]]) { d[0] = e[0]; }")


@pytest.mark.feature("types", "vector indexing")
def test_indexing_reads_and_writes() -> None:
    places = np.arange(4, dtype=np.int32)
    vectors = np.tile(FOUR, (4, 1))
    got = probe([*parts("w", 4), "v[p]"], setup="float4 w = v; w[p] = 9; w[(p + 1) & 3] += 0.5f;", p=places, v=vectors)
    for k in range(4):
        want = [1.0, 2.0, 3.0, 4.0]
        want[k] = 9
        want[(k + 1) & 3] += 0.5
        assert got[k].tolist() == [*want, k + 1]


@pytest.mark.feature("types", "vector arithmetic")
@pytest.mark.parametrize("name", ["char", "ushort", "int", "uint", "long"])
def test_integer_operators(name: str) -> None:
    dtype = DTYPES[name]
    a = np.array([[100, 7, 3]], dtype)
    b = np.array([[50, 3, 2]], dtype)
    wide_a, wide_b = a.astype(np.int64)[0], b.astype(np.int64)[0]
    operations = {
        "a + b": wide_a + wide_b,
        "a - b": wide_a - wide_b,
        "a * b": wide_a * wide_b,
        "a / b": wide_a // wide_b,
        "a % b": wide_a % wide_b,
        "a & b": wide_a & wide_b,
        "a | b": wide_a | wide_b,
        "a ^ b": wide_a ^ wide_b,
        "a << 1": wide_a << 1,
        "a >> 1": wide_a >> 1,
        "~a": ~wide_a,
        "-a": -wide_a,
        "2 * a": 2 * wide_a,
        "a - 1": wide_a - 1,
    }
    got = row([c for e in operations for c in parts(e, 3)], name, a=a, b=b)
    want = np.concatenate(list(operations.values())).astype(dtype)
    assert got == want.tolist()


@pytest.mark.parametrize("name", ["half", "bfloat", "float"])
def test_float_operators_round_in_their_own_type(name: str) -> None:
    dtype = DTYPES[name]
    a = np.array([[1.1, -2.7]]).astype(dtype)
    b = np.array([[3.3, 0.9]]).astype(dtype)
    operations = {"a + b": a + b, "a - b": a - b, "a * b": a * b, "a / b": a / b, "-a": -a, "a * 2": a * dtype.type(2)}
    got = row([c for e in operations for c in parts(e, 2)], name, a=a, b=b)
    assert got == np.concatenate([v[0].astype(dtype) for v in operations.values()]).tolist()


@pytest.mark.feature("types", "vector comparisons")
def test_comparisons_give_bool_vectors() -> None:
    a, b = np.array([[1, 2, 3]], np.int32), np.array([[3, 2, 1]], np.int32)
    expressions = (
        "a < b",
        "a <= b",
        "a > b",
        "a >= b",
        "a == b",
        "a != b",
        "a == 2",
        "!(a < b)",
        "(a < b) && (b > 2)",
        "(a < b) || (a > b)",
    )
    got = row([c for e in expressions for c in parts(e, 3)], "bool", a=a, b=b)
    want = [
        *(True, False, False, True, True, False, False, False, True, False, True, True, False, True, False),
        *(True, False, True, False, True, False, False, True, True, True, False, False, True, False, True),
    ]
    assert got == want


def test_compound_assignment_and_increment() -> None:
    setup = "int4 v = int4(1, 2, 3, 4); v += 1; v *= int4(2); v -= 1; v <<= 1; int4 old = v++; --v; v |= 1; v %= 16;"
    assert row([*parts("v", 4), *parts("old", 4)], "int", setup=setup) == [7, 11, 15, 3, 6, 10, 14, 18]


@pytest.mark.feature("types", "vector conversions")
def test_conversions_between_element_types() -> None:
    v = np.array([[1.9, -2.9, 300.5, 0.0]], np.float32)
    assert row(parts("int4(v)", 4), "int", v=v) == [1, -2, 300, 0]
    assert row(parts("bool4(v)", 4), "bool", v=v) == [True, True, True, False]
    assert row(parts("float4(half4(v))", 4), v=v) == v[0].astype(np.float16).tolist()
    assert row(parts("half2(bfloat2(v.xy))", 2), "half", v=v) == [1.8984375, -2.90625]


def test_scalars_spread_over_a_half_vector_without_widening_it() -> None:
    header = """
static_assert(is_same_v<decltype(half4(1) * 0.5f), half4>);
static_assert(is_same_v<decltype(2 * float3(1)), float3>);
"""
    assert row(["(half2(3) * 0.5f).x"], header=header) == [1.5]


@pytest.mark.feature("types", "templates over vec<T, N>")
def test_vectors_as_template_arguments() -> None:
    header = """
template <typename T, int N> T total(vec<T, N> v) { T s = 0; for (int k = 0; k < N; ++k) s += v[k]; return s; }
template <typename T> struct lanes;
template <typename T, int N> struct lanes<vec<T, N>> { static constexpr constant int count = N; };
"""
    assert row(["total(v)", "total(v.xyz)", "total(int2(3, 4))", "lanes<float3>::count"], header=header, v=FOUR) == [
        10,
        6,
        7,
        3,
    ]


def test_vectors_in_structs_arrays_and_unions() -> None:
    header = """
struct Item { float3 p; int n; float2 q[2]; };
union Bits { float2 f; uint2 u; };
Item make(float3 p) { Item r; r.p = p; r.n = 5; r.q[0] = p.xy; r.q[1] = p.yz; return r; }
"""
    setup = """
  Item a = make(v.xyz), b = a;
  b.q[1].x += 1;
  Bits w;
  w.f = float2(1, 2);
  float4 list[3] = {v, v * 2, v * 3};
"""
    expressions = ["sizeof(Item)", "b.p.z", "b.q[1].x", "a.q[1].x", "b.n", "w.u.x == 0x3f800000u", "list[i + 2].w"]
    assert row(expressions, header=header, setup=setup, v=FOUR) == [48, 3, 3, 2, 5, 1, 12]


def test_select_by_the_conditional_operator() -> None:
    setup = (
        "float4 zero = float4(0); auto wide = reinterpret_cast<device const float4*>(v_);"
        "float4 r = v.x > 0 ? wide[0] : float4(0); float4 s = v.x < 0 ? v : zero;"
    )
    assert row([*parts("r", 4), *parts("s", 4)], setup=setup, v=FOUR) == [1, 2, 3, 4, 0, 0, 0, 0]


def test_constant_tables_of_vectors() -> None:
    header = "constant float3 table[2] = {float3(1, 2, 3), float3(4, 5, 6)}; constant float4 one = {1, 1, 1, 1};"
    assert row(["table[i + 1].y", "table[i].zyx.x", "(one + one).w"], header=header) == [5, 3, 2]


def test_pointers_and_references_to_vectors() -> None:
    header = """
float3 sum(thread const float3& a, device const packed_float3* b) { return a + b[0]; }
template <typename T, int N> void fill(thread vec<T, N> (&all)[2], T v) { for (int k = 0; k < 2; ++k) all[k] = v; }
"""
    setup = """
  float4 a = v;
  thread float4* p = &a;
  p->x = 9;
  (*p).yz = v.zy;
  float4 all[2] = {0};
  fill(all, 5.0f);
  auto twice = [=](float4 q) { return q * 2 + a; };
  int total = 0;
  for (auto e : {1, 2, 4}) total += e;
"""
    expressions = ["a.x", "a.y", "all[1].w", "twice(v).x", "sum(v.xyz, (device const packed_float3*)v_).z", "total"]
    assert row(expressions, header=header, setup=setup, v=FOUR) == [9, 3, 5, 11, 6, 7]

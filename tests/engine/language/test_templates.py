"""Templates, their instantiations with host_name, and the C++17 that real kernels use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metalcore
from tests.engine.language.helpers import HEADER, feature, launch, per_thread

SCALE = """
template <typename T, int N>
kernel void scale(device T* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = x[i] * T(N); }
"""
SPELLINGS = [
    feature(
        "language",
        "host_name with the full parameter list",
        'template [[host_name("scale_f32_3")]] kernel void scale<float, 3>(device float* x [[buffer(0)]],'
        " uint i [[thread_position_in_grid]]);",
    ),
    feature(
        "language",
        "host_name with decltype",
        'template [[host_name("scale_f32_3")]] [[kernel]] decltype(scale<float, 3>) scale<float, 3>;',
    ),
    feature(
        "language",
        "host_name with a typedef of decltype",
        "typedef decltype(scale<float, 3>) scale_t;\n"
        'template [[host_name("scale_f32_3")]] kernel scale_t scale<float, 3>;',
    ),
    feature(
        "language",
        "host_name of adjacent strings made by a macro",
        "#define MAKE(name, T, n) "
        'template [[host_name("scale_" #name "_" #n)]] [[kernel]] decltype(scale<T, n>) scale<T, n>;\n'
        "MAKE(f32, float, 3)",
    ),
]


@pytest.mark.parametrize("instantiation", SPELLINGS)
def test_host_name(instantiation: str) -> None:
    library = metalcore.Library(HEADER + SCALE + instantiation)
    assert library.functions == ("scale_f32_3",)
    x = np.array([1, 2, 3], np.float32)
    library.function("scale_f32_3")(x, threads=3)
    assert x.tolist() == [3, 6, 9]


@pytest.mark.feature("language", "many instantiations of one template")
def test_many_instantiations() -> None:
    lines = [
        f'template [[host_name("scale_{t}_{n}")]] [[kernel]] decltype(scale<{t}, {n}>) scale<{t}, {n}>;'
        for t in ("float", "half", "int", "uchar")
        for n in (2, 5)
    ]
    library = metalcore.Library(HEADER + SCALE + "\n".join(lines))
    assert sorted(library.functions) == sorted(
        f"scale_{t}_{n}" for t in ("float", "half", "int", "uchar") for n in (2, 5)
    )
    for name, dtype in (("float", np.float32), ("half", np.float16), ("int", np.int32), ("uchar", np.uint8)):
        x = np.array([1, 60], dtype)
        library.function(f"scale_{name}_5")(x, threads=2)
        assert x.tolist() == ([5, 44] if name == "uchar" else [5, 300])


CASES = [
    feature(
        "language",
        "templates of functions",
        "template <typename T> T twice(T x) { return x + x; }",
        "twice(int(tid))",
        [0, 2, 4, 6],
    ),
    feature(
        "language",
        "templates of structs with specialisations",
        "template <typename T> struct Size { static constexpr int value = 1; };"
        "template <> struct Size<half> { static constexpr int value = 2; };"
        "template <typename T> struct Size<T*> { static constexpr int value = 3; };",
        "Size<int>::value * 100 + Size<half>::value * 10 + Size<device float*>::value + int(tid)",
        [123, 124, 125, 126],
    ),
    feature(
        "language",
        "if constexpr",
        "template <bool B> int choose(int x) { if constexpr (B) { return x; } else { return -x; } }",
        "choose<true>(int(tid)) * 10 + choose<false>(int(tid))",
        [0, 9, 18, 27],
    ),
    feature(
        "language",
        "enable_if",
        "template <typename T, enable_if_t<is_floating_point_v<T>, bool> = true> int kind(T) { return 1; }"
        "template <typename T, enable_if_t<is_integral_v<T>, bool> = true> int kind(T) { return 2; }",
        "kind(1.0f) * 100 + kind(1) * 10 + kind(half(1)) + int(tid)",
        [121, 122, 123, 124],
    ),
    feature("language", "lambdas", "", "[](int x) { return x * x; }(int(tid))", [0, 1, 4, 9]),
    feature(
        "language",
        "lambdas that capture",
        "template <typename F> int apply(F f, int x) { return f(x) + f(x + 1); }",
        "[&]() { int base = int(tid); return apply([=](int x) { return x * base; }, 3); }()",
        [0, 7, 14, 21],
    ),
    feature(
        "language",
        "fold expressions",
        "template <typename... T> int sum(T... x) { return (x + ... + 0); }",
        "sum(1, int(tid), 3u, short(4))",
        [8, 9, 10, 11],
    ),
    feature(
        "language",
        "variadic templates and sizeof...",
        "template <int... N> int count() { return sizeof...(N) * 100 + (N + ...); }",
        "count<1, 2, 3>() + int(tid)",
        [306, 307, 308, 309],
    ),
    feature(
        "language",
        "functions as template arguments",
        "int inc(int x) { return x + 1; } template <int (*F)(int)> int run(int x) { return F(F(x)); }",
        "run<inc>(int(tid))",
        [2, 3, 4, 5],
    ),
    feature(
        "language",
        "function objects as template arguments",
        "struct Max { template <typename T> T operator()(T a, T b) { return a > b ? a : b; } };"
        "template <typename Op> int fold(int a, int b) { return Op()(a, b); }",
        "fold<Max>(int(tid), 2)",
        [2, 2, 2, 3],
    ),
    feature(
        "language",
        "auto, decltype and structured bindings",
        "struct Pair { int a; int b; };",
        "[&]() { auto p = Pair{int(tid), 5}; auto [a, b] = p; decltype(a) c = a * b; return c + b; }()",
        [5, 10, 15, 20],
    ),
    feature(
        "language",
        "constexpr functions",
        "constexpr int power(int b, int e) { return e == 0 ? 1 : b * power(b, e - 1); } "
        "template <int N> int value() { return N; }",
        "value<power(3, 4)>() + int(tid)",
        [81, 82, 83, 84],
    ),
    feature(
        "language",
        "default arguments and overloads",
        "int f(int a, int b = 10) { return a + b; } int f(float a) { return -int(a); }",
        "f(int(tid)) * 100 + f(float(tid))",
        [1000, 1099, 1198, 1297],
    ),
    feature(
        "language",
        "static_assert and type traits",
        'static_assert(is_same_v<decltype(1.0h), half>, "half literal"); static_assert(sizeof(long) == 8);',
        "int(sizeof(half)) + int(tid)",
        [2, 3, 4, 5],
    ),
    feature(
        "language",
        "macros that make kernels and functions",
        "#define FN(name, op) int name(int a, int b) { return a op b; }\nFN(add, +)\nFN(sub, -)\n",
        "add(int(tid), 5) * 10 + sub(int(tid), 1)",
        [49, 60, 71, 82],
    ),
    feature(
        "language",
        "template aliases and integral_constant",
        "template <typename T> using Twice = vec<T, 2>; using Three = integral_constant<int, 3>;",
        "int(sizeof(Twice<float>)) + Three::value + int(tid)",
        [11, 12, 13, 14],
    ),
]


@pytest.mark.parametrize(("before", "value", "expected"), CASES)
def test_cpp(before: str, value: str, expected: list[Any]) -> None:
    assert per_thread(f"out[gid] = {value};", before=before) == expected


@pytest.mark.feature("language", "preprocessor defines given by the host")
def test_defines() -> None:
    out = np.zeros(2, np.int32)
    source = HEADER + "kernel void k(device int* o, uint i [[thread_position_in_grid]]) { o[i] = SIZE + int(i); }"
    metalcore.Library(source, defines={"SIZE": 40}).function("k")(out, threads=2)
    assert out.tolist() == [40, 41]


@pytest.mark.feature("language", "__METAL__, __METAL_VERSION__ and __HAVE_BFLOAT__ are defined")
def test_predefined_macros() -> None:
    body = """
    #if defined(__METAL__) && __METAL_VERSION__ >= 310 && defined(__HAVE_BFLOAT__)
    out[gid] = 1;
    #else
    out[gid] = 0;
    #endif
    """
    assert per_thread(body) == [1, 1, 1, 1]


@pytest.mark.feature("language", "sources without any include")
def test_no_include() -> None:
    out = np.zeros(2, np.float16)
    source = "kernel void k(device half* o, uint i [[thread_position_in_grid]]) { half2 v = half2(1, 2); o[i] = v[i]; }"
    metalcore.Library(source).function("k")(out, threads=2)
    assert out.tolist() == [1, 2]


@pytest.mark.feature("language", "the words kernel and [[kernel]] in every place")
def test_kernel_spellings() -> None:
    source = """
    kernel void a(device int* o, uint i [[thread_position_in_grid]]) { o[i] = 1; }
    void kernel b(device int* o, uint i [[thread_position_in_grid]]) { o[i] = 2; }
    [[kernel]] void c(device int* o, uint i [[thread_position_in_grid]]) { o[i] = 3; }
    [[host_name("d_named")]] kernel void d(device int* o, uint i [[thread_position_in_grid]]) { o[i] = 4; }
    """
    library = metalcore.Library(HEADER + source)
    assert sorted(library.functions) == ["a", "b", "c", "d_named"]
    for name, expected in (("a", 1), ("b", 2), ("c", 3), ("d_named", 4)):
        out = np.zeros(1, np.int32)
        library.function(name)(out, threads=1)
        assert out[0] == expected


@pytest.mark.feature("language", "kernels that call kernels' helpers in other namespaces")
def test_kernel_in_a_template_struct() -> None:
    source = """
    namespace detail { template <typename T> struct Op { static T run(T a, T b) { return a * b + T(1); } }; }
    template <typename T, typename O>
    kernel void apply(device const T* a, device const T* b, device T* o, uint i [[thread_position_in_grid]]) {
        o[i] = O::run(a[i], b[i]);
    }
    template [[host_name("apply_int")]] [[kernel]] decltype(apply<int, detail::Op<int>>) apply<int, detail::Op<int>>;
    """
    a = np.array([1, 2, 3], np.int32)
    out = np.zeros(3, np.int32)
    launch(source, a, a, out, name="apply_int", threads=3)
    assert out.tolist() == [2, 5, 10]

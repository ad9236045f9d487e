"""What MSL says and C++ does not is rewritten; everything else, line breaks included, stays."""

# ruff: noqa: E501

import pytest

from metalcore.engine.frontend.diagnostics import Sources
from metalcore.engine.frontend.literals import number, pragma
from metalcore.engine.frontend.rewrite import rewrite


def text(source: str) -> str:
    return " ".join(rewrite(source, Sources("<metal>", source)).text.split())


@pytest.mark.parametrize(
    ("msl", "cpp"),
    [
        ("1.0", "1.0f"),
        (".5", ".5f"),
        ("1.", "1.f"),
        ("1e-5", "1e-5f"),
        ("0x1.8p3", "0x1.8p3f"),
        ("1.5f", "1.5f"),
        ("1.5F", "1.5F"),
        ("2.0h", "2.0f16"),
        ("3H", "3.0f16"),
        ("1.5bf", "((bfloat)1.5f)"),
        ("42", "42"),
        ("0xffu", "0xffu"),
        ("0x1e5", "0x1e5"),
        ("1'000.5", "1'000.5f"),
    ],
)
def test_numbers(msl: str, cpp: str) -> None:
    assert number(msl) == cpp


@pytest.mark.parametrize(
    ("msl", "cpp"),
    [
        ("#pragma unroll", "#pragma unroll"),
        ("#pragma unroll(4)", "#pragma unroll(4)"),
        ("#pragma unroll (N * 2)", "#pragma unroll"),
        ("#pragma clang loop unroll(full)", "#pragma clang loop unroll(full)"),
        ("#pragma METAL fp contract(off)", "#pragma clang fp contract(off)"),
        ("#pragma METAL fp math_mode(safe)", "#pragma float_control(precise, on)"),
        ("#pragma METAL internals : enable", ""),
    ],
)
def test_pragmas(msl: str, cpp: str) -> None:
    assert pragma(msl) == cpp


def test_address_spaces_become_attributes() -> None:
    assert text("void f(device float* a, constant int& b, threadgroup half* c, thread uint& d);") == (
        "void f(__mc_device float* a, __mc_constant int& b, __mc_threadgroup half* c, __mc_thread uint& d);"
    )


def test_methods_lose_their_space_and_their_doubles() -> None:
    source = """struct C { float r;
      C(float x) thread : r(x) {}
      C(float y) device : r(y) {}
      operator float() const device { return r; }
      operator float() const threadgroup { return r; }
      operator float() const { return r; }
      float at(device int* i) const device { return r; }
      float at(threadgroup int* i) const device { return r; }
    };"""
    assert text(source) == (
        "struct C { float r; C(float x) : r(x) {} operator float() const { return r; } "
        "float at(__mc_device int* i) const { return r; } float at(__mc_threadgroup int* i) const { return r; } };"
    )


def test_threadgroup_variables_are_static_and_pointers_are_not() -> None:
    source = "kernel void f() { threadgroup float b[4]; threadgroup float* p = b; const threadgroup int q[2]; }"
    assert text(source) == (
        "void f() { static __attribute__((used)) __mc_threadgroup float b[4]; __mc_threadgroup float* p = b; "
        "static __attribute__((used)) const __mc_threadgroup int q[2]; } /*__mc:k0*/"
    )


def test_constant_tables_in_functions_are_static() -> None:
    source = "float f(int i) { constexpr constant float t[2] = {1.0, 2.0}; return t[i]; }"
    assert "static constexpr __mc_constant float t[2] = {1.0f, 2.0f};" in text(source)


def test_array_parameters_become_pointers() -> None:
    source = "void f(constant int s[2], device float m[3][4], thread float t[2]);"
    assert text(source) == "void f(__mc_constant int *s , __mc_device float (*m) [4], __mc_thread float *t );"


def test_every_place_of_the_word_kernel() -> None:
    source = """kernel void a() {}
    void kernel b() {}
    [[kernel]] void c() {}
    [[host_name("named")]] [[kernel]] void d() {}
    [[max_total_threads_per_threadgroup(64)]] kernel void e() {}
    kernel [[max_total_threads_per_threadgroup(2 * 32)]] void g() {}
    namespace n { kernel void h() {} }
    """
    rewritten = rewrite(source, Sources("<metal>", source))
    assert [k.host_name for k in rewritten.kernels] == ["a", "b", "c", "named", "e", "g", "n::h"]
    assert rewritten.text.count('annotate("mc_max_threads"') == 2
    assert "kernel" not in rewritten.text


def test_the_three_spellings_of_an_instantiation() -> None:
    source = """template <typename T> [[kernel]] void f(device T* x [[buffer(3)]], uint i [[thread_position_in_grid]]) {}
    template [[host_name("f_" "full")]] kernel void f<float>(device float* x [[buffer(3)]], uint i [[thread_position_in_grid]]);
    template [[host_name("f_decltype")]] [[kernel]] decltype(f<half>) f<half>;
    typedef decltype(f<int>) f_t;
    template [[host_name("f_typedef")]] kernel f_t f<int>;
    """
    kernels = rewrite(source, Sources("<metal>", source)).kernels
    assert [(k.host_name, k.expression) for k in kernels] == [
        ("f_full", "f < float >"),
        ("f_decltype", "f < half >"),
        ("f_typedef", "f < int >"),
    ]
    assert [(p.name, p.binding, p.index, p.builtin) for p in kernels[1].parameters] == [
        ("x", "buffer", "3", ""),
        ("i", "", "", "thread_position_in_grid"),
    ]


def test_attributes_of_ordinary_functions_and_cpp_ones() -> None:
    source = "[[nodiscard]] float f(uint i [[thread_position_in_grid]], [[maybe_unused]] int n) { return i; }"
    assert text(source) == "[[nodiscard]] float f(uint i , [[maybe_unused]] int n) { return i; }"


def test_coherent_is_dropped() -> None:
    assert text("void f(volatile coherent(device) device uint* x);") == "void f(volatile __mc_device uint* x);"


def test_lines_stay_where_they_are() -> None:
    source = "struct C {\n  float a() const\n    device { return 1; }\n  float a() const\n  { return 2; }\n};\nint x;\n"
    assert rewrite(source, Sources("<metal>", source)).text.split("\n").index("int x;") == 6


def test_string_literals_lie_in_constant_space() -> None:
    source = """static_assert(1, "why"); extern "C" { void g(constant char* s, int n); }
    constant char name[] = "n"; void f() { g("a" "b", 1); g(__func__, 2); float x = __builtin_nanf(""); }"""
    assert text(source) == (
        'static_assert(1, "why"); extern "C" { void g(__mc_constant char* s, int n); } '
        '__mc_constant char name[] = "n"; void f() { g(((__mc_constant char*)"a" "b"), 1); '
        'g(((__mc_constant char*)__func__), 2); float x = __builtin_nanf(""); }'
    )


def test_an_instantiation_with_a_global_name() -> None:
    source = """namespace n { template <typename T> kernel void f(device T* x) {} }
    template [[host_name("a")]] kernel void ::n::f<float>(device float* x);
    template [[host_name("b")]] [[kernel]] decltype(n::f<int>) ::n::f<int>;"""
    kernels = rewrite(source, Sources("<metal>", source)).kernels
    assert [k.expression for k in kernels] == [":: n :: f < float >", ":: n :: f < int >"]


def test_defaulted_constructors_leave_an_aggregate() -> None:
    source = "template <typename T> struct A { uint i; T v; constexpr A<T>() threadgroup = default; };"
    assert text(source) == "template <typename T> struct A { uint i; T v; };"
    kept = "struct B { int i; B() = default; B(int j) : i(j) {} };"
    assert text(kept) == kept

"""Signatures come from clang: slots, types, sizes and thread attributes."""

# ruff: noqa: E501

import pytest

from metalcore.engine.frontend import Argument, ScalarKernel, lower, make_unit


def compiled(source: str, name: str = "f") -> ScalarKernel:
    return lower(make_unit(source), name, None)


def row(argument: Argument) -> tuple[object, ...]:
    return (argument.name, argument.index, argument.kind, argument.type, argument.element_size, argument.writable)


def test_pointers_references_and_threadgroup_memory() -> None:
    source = """struct Params { int n; float3 v; };
    kernel void f(device float* a, const device half* b, constant Params& p, constant uint2* q, device atomic_uint* c,
                  threadgroup float4* t [[threadgroup(1)]], device void* raw, constant packed_float3& k,
                  uint i [[thread_position_in_grid]]) {}"""
    kernel = compiled("using namespace metal;\n" + source)
    assert [row(a) for a in kernel.arguments[:4]] == [
        ("a", 0, "buffer", "float", 4, True),
        ("b", 1, "buffer", "half", 2, False),
        ("p", 2, "value", "Params", 32, False),
        ("q", 3, "buffer", "uint2", 8, False),
    ]
    atomic, group, raw, packed, thread = kernel.arguments[4:]
    assert (atomic.index, atomic.element_size, atomic.writable, atomic.scalar) == (4, 4, True, "uint32")
    assert row(group) == ("t", 1, "threadgroup", "float4", 16, False)
    assert (raw.index, raw.type, raw.element_size) == (5, "void", 1)
    assert (packed.type, packed.element_size, packed.element_align, packed.lanes) == ("packed_float3", 12, 4, 3)
    assert (thread.kind, thread.index, thread.attribute) == ("builtin", -1, "thread_position_in_grid")


def test_numbers_left_to_the_compiler_fill_the_gaps() -> None:
    kernel = compiled(
        "kernel void f(device int* a, device int* b [[buffer(0)]], device int* c, device int* d [[buffer(3)]],"
        " device int* e, threadgroup int* t, threadgroup int* u [[threadgroup(0)]]) {}"
    )
    assert [a.index for a in kernel.arguments] == [1, 0, 2, 3, 4, 1, 0]


def test_an_index_may_be_an_expression() -> None:
    source = "constant constexpr int base = 4; enum { next = base + 1 };"
    kernel = compiled(source + "kernel void f(device int* a [[buffer(next * 2)]]) {}")
    assert kernel.arguments[0].index == 10


@pytest.mark.parametrize(
    "type_", ["uint", "ushort", "unsigned", "uint32_t", "uint2", "ushort2", "uint3", "ushort3", "int"]
)
def test_a_thread_position_in_every_type(type_: str) -> None:
    kernel = compiled(f"kernel void f(device int* a, {type_} i [[thread_position_in_grid]]) {{ a[0] = 1; }}")
    assert kernel.arguments[1].attribute == "thread_position_in_grid"
    assert kernel.ir.count("@__mc_thread_position_in_grid(i32") == kernel.arguments[1].lanes + 1  # and its declaration


def test_scalars_of_every_width() -> None:
    types = {
        "bool": "bool",
        "char": "int8",
        "uchar": "uint8",
        "short": "int16",
        "ushort": "uint16",
        "int": "int32",
        "uint": "uint32",
        "long": "int64",
        "ulong": "uint64",
        "half": "float16",
        "bfloat": "bfloat16",
        "float": "float32",
    }
    parameters = ", ".join(f"device {t}* p_{t}" for t in types)
    kernel = compiled(f"kernel void f({parameters}) {{}}")
    assert {a.type: a.scalar for a in kernel.arguments} == types


def test_references_to_arrays_and_lists_of_pointers() -> None:
    kernel = compiled("kernel void f(constant float (&w)[3], device float* device* list) {}")
    assert (kernel.arguments[0].kind, kernel.arguments[0].element_size) == ("value", 12)
    assert (kernel.arguments[1].scalar, kernel.arguments[1].element_size) == ("pointer", 8)


def test_maximum_threads_of_a_template() -> None:
    source = """template <int N> [[kernel, max_total_threads_per_threadgroup(N * 32)]] void f(device int* a) { a[0] = N; }
    template [[host_name("four")]] [[kernel]] decltype(f<4>) f<4>;
    kernel void plain(device int* a) {}"""
    unit = make_unit(source)
    assert lower(unit, "four", None).max_threads == 128
    assert lower(unit, "plain", None).max_threads is None


def test_overloaded_templates_are_told_apart() -> None:
    source = """template <typename T, int N> [[kernel]] void f(device T* a [[buffer(2)]]) { a[0] = N; }
    template <int N> [[kernel]] void f(device int* b [[buffer(5)]]) { b[0] = N; }
    template [[host_name("typed")]] [[kernel]] decltype(f<float, 1>) f<float, 1>;
    template [[host_name("plain")]] [[kernel]] decltype(f<7>) f<7>;"""
    unit = make_unit(source)
    assert lower(unit, "typed", None).arguments[0].index == 2
    assert lower(unit, "plain", None).arguments[0].index == 5


def test_the_entry_point_takes_no_parameters_and_asks_for_what_it_needs() -> None:
    ir = compiled("kernel void f(device float* a [[buffer(7)]]) { a[1] = 2; }").ir
    assert "define dso_local void @__mc_entry()" in ir
    assert "@__mc_arg(i32" in ir and "i32 7" in ir
    assert "__mc_describe" not in ir.split("!llvm")[0]


def test_threadgroup_variables_are_internal_globals() -> None:
    ir = compiled("kernel void f(device float* a) { threadgroup float b[8]; b[0] = a[0]; a[1] = b[1]; }").ir
    (line,) = [line for line in ir.splitlines() if line.startswith("@") and "[8 x float]" in line]
    assert " = internal global [8 x float]" in line
    assert "@llvm.compiler.used" in ir or "@llvm.used" in ir


def test_debug_lines_are_the_users() -> None:
    ir = compiled("\n\nkernel void f(device float* a) {\n  a[0] = a[1];\n}\n").ir
    assert 'filename: "<metal>"' in ir
    assert "!DILocation(line: 4," in ir


def test_a_helper_may_have_the_kernels_name() -> None:
    source = """float f(float x) { return x + 1; }
    kernel void f(device float* x [[buffer(2)]]) { x[0] = f(x[1]); }
    float f(int x, int y) { return x; }"""
    assert compiled(source).arguments[0].index == 2


def test_explicit_specialisations_are_kernels_of_their_own() -> None:
    source = """template <typename T> [[kernel]] void f(device T* x) { x[0] = 1; }
    template <> [[host_name("f_int")]] [[kernel]] void f<int>(device int* x [[buffer(0)]]) { x[0] = 2; }
    template [[host_name("f_float")]] [[kernel]] decltype(f<float>) f<float>;"""
    unit = make_unit(source)
    assert unit.functions == ("f_int", "f_float")
    assert "store i32 2" in lower(unit, "f_int", None).ir
    assert "store float 1" in lower(unit, "f_float", None).ir


def test_a_template_may_be_a_kernel_by_its_instantiation_alone() -> None:
    source = """template <typename T> void f(device T* x [[buffer(4)]]) { threadgroup T s[2]; s[0] = x[0]; x[1] = s[1]; }
    template [[host_name("f_half")]] kernel void f<half>(device half* x [[buffer(4)]]);"""
    assert compiled(source, "f_half").arguments[0].index == 4

"""Hand-written kernels for the language features that the front end must carry to LLVM IR."""

# ruff: noqa: E501

import json
from dataclasses import replace

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import ScalarKernel, Unit, lower, make_unit

HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"


def compiled(source: str, name: str = "f", math_mode: str = "safe") -> ScalarKernel:
    return lower(make_unit(HEADER + source, math_mode=math_mode), name, None)


def test_a_unit_survives_json() -> None:
    source = """constant bool a [[function_constant(1)]];
    template <typename T> [[kernel]] void f(device T* x) { x[0] = a; }
    template [[host_name("f_float")]] [[kernel]] void f<float>(device float* x);"""
    unit = make_unit(source)
    again = Unit.from_json(unit.to_json())
    assert again == unit and json.loads(unit.to_json())["functions"] == ["f_float"]
    assert lower(again, "f_float", {1: True}) == lower(unit, "f_float", {1: True})


def test_a_source_without_any_include() -> None:
    unit = make_unit(
        "kernel void f(device half2* x, uint i [[thread_position_in_grid]]) { x[i] = half2(1.0h, INFINITY); }"
    )
    assert unit.functions == ("f",)
    lower(unit, "f", None)


def test_macros_of_the_language() -> None:
    source = """#if __METAL_VERSION__ >= 310 && defined(__METAL__) && defined(__HAVE_BFLOAT__)
    kernel void f(device float* x) { x[0] = M_PI_F; x[1] = FLT_MAX; x[2] = INT_MAX; x[3] = M_PI_H; x[4] = NAN; }
    #endif"""
    compiled(source)


def test_math_modes_shape_the_arithmetic() -> None:
    source = "kernel void f(device float* x) { x[0] = x[1] * x[2] + x[3]; x[4] = x[5] + x[6]; }"
    safe, relaxed, fast = (compiled(source, math_mode=m).ir for m in ("safe", "relaxed", "fast"))
    assert "@llvm.fmuladd.f32" in safe and "fadd float" in safe
    assert "fadd reassoc nsz arcp contract float" in relaxed
    assert "fadd fast float" in fast


def test_a_pragma_makes_a_block_safe() -> None:
    source = """kernel void f(device float* x) {
    #pragma METAL fp math_mode(safe)
      x[0] = x[1] + x[2];
      {
    #pragma METAL fp contract(off)
        x[3] = x[4] * x[5] + x[6];
      }
    }"""
    ir = compiled(source, math_mode="fast").ir
    assert "fadd float" in ir and "fadd fast" not in ir
    assert "fmul float" in ir and "fmuladd" not in ir


def test_endless_loops_stay() -> None:
    ir = compiled("kernel void f(device int* x) { while (true) { } }").ir
    assert "mustprogress" not in ir


def test_half_arithmetic_rounds_at_each_step() -> None:
    ir = compiled("kernel void f(device half* x) { x[0] = x[1] + x[2] + x[3]; }").ir
    assert ir.count("fadd half") == 2 and "fpext" not in ir


@pytest.mark.parametrize(
    "body",
    [
        "auto square = [&](float v) { return v * v; }; x[0] = square(x[1]);",
        "x[0] = sum(x[1], x[2], x[3]);",
        "if constexpr (is_same_v<T, float>) { x[0] = 1; } else { x[0] = 2; }",
        "union { float f; uint u; } both; both.f = x[0]; x[1] = both.u;",
        "struct Bits { uint a : 3; uint b : 5; }; Bits b; b.a = 2; b.b = 3; x[0] = b.a + b.b;",
        "x[0] = as_type<float>(as_type<uint>(x[1]) & 0x7fffffffu);",
        "device uint* bits = reinterpret_cast<device uint*>(x); bits[0] ^= 1;",
        "float4 v(1, 2, 3, 4); v.xz = v.yw; x[0] = v.x; x[1] = dot(v.xyz, float3(1));",
        "threadgroup float shared[32]; shared[i] = x[i]; threadgroup_barrier(mem_flags::mem_threadgroup); x[i] = shared[31 - i];",
        "x[i] = simd_sum(x[i]) + simd_shuffle_xor(x[i], 1) + simd_prefix_inclusive_sum(x[i]);",
        "thread float* p = &local; *p = 3; x[0] = local;",
        "for (int k = 0; k < 4; ++k) { if (x[k] > 0) continue; x[k] = 1; }",
        "switch (int(x[0])) { case 1: x[1] = 2; break; default: x[1] = 3; }",
        "#pragma unroll(N * 2)\nfor (int k = 0; k < N; ++k) { x[k] = k; }",
        '_Pragma("clang loop unroll(full)") for (int k = 0; k < N; ++k) { x[k] = k; }',
        "array<float, 3> a = {1, 2, 3}; x[0] = a[1];",
        "x[0] = float(long(x[1]) << 33) + float(ulong(1) << 40);",
        "x[0] = metal::precise::exp(x[1]) + metal::fast::exp(x[2]) + exp(x[3]);",
        "x[0] = table[i % 3];",
        "x[0] = x[1] > 0 ? x[2] : 0.0;",
    ],
)
def test_bodies(body: str) -> None:
    source = f"""constant float table[3] = {{1.0, 2.0, 3.0}};
    template <typename... Args> float sum(Args... args) {{ return (args + ...); }}
    template <typename T, int N> [[kernel]] void f(device T* x, uint i [[thread_index_in_simdgroup]]) {{
      float local = 0; (void)local;
      {body}
    }}
    template [[host_name("f_float")]] [[kernel]] decltype(f<float, 4>) f<float, 4>;
    """
    assert "define dso_local void @__mc_entry()" in compiled(source, "f_float").ir


def test_methods_overloaded_on_address_spaces() -> None:
    source = """struct Complex {
      float re, im;
      Complex(float r, float i) thread : re(r), im(i) {}
      Complex(float r, float i) device : re(r), im(i) {}
      float norm() const thread { return re * re + im * im; }
      float norm() const device { return re * re + im * im; }
      float norm() const constant { return re * re + im * im; }
      thread Complex& operator+=(Complex o) thread { re += o.re; im += o.im; return *this; }
    };
    kernel void f(device Complex* x, constant Complex& c, device float* out) {
      Complex local(1, 2);
      local += x[0];
      out[0] = local.norm() + x[1].norm() + c.norm();
      x[2] = local;
    }"""
    compiled(source)


def test_overloads_and_specialisations_per_space_stay_apart() -> None:
    source = """template <typename T> struct element {};
    template <typename T> struct element<device T*> { static constexpr int space = 1; };
    template <typename T> struct element<threadgroup T*> { static constexpr int space = 2; };
    template <typename T> struct element<constant T*> { static constexpr int space = 3; };
    template <typename T> struct element<thread T*> { static constexpr int space = 4; };
    int where(device float*) { return 1; }
    int where(threadgroup float*) { return 2; }
    int where(thread float*) { return 4; }
    static_assert(element<device float*>::space == 1 && element<threadgroup int*>::space == 2, "");
    static_assert(element<constant float*>::space == 3 && element<thread int*>::space == 4, "");
    kernel void f(device float* x, threadgroup float* t) { float l = 0; x[0] = where(x) + where(t) + where(&l); }"""
    compiled(source)


def test_conditionals_across_address_spaces() -> None:
    source = """struct Pair { float a, b; Pair() = default; constexpr Pair(float v) : a(v), b(v) {} };
    constant Pair zero(0);
    template <typename T> [[kernel]] void f(device T* x, uint i [[thread_position_in_grid]]) {
      threadgroup T s[2];
      T v = i < 3 ? s[1] : zero;
      T w = i < 3 ? x[i] : T(1);
      x[i] = i > 4 ? v : w;
    }
    template [[host_name("f")]] [[kernel]] decltype(f<Pair>) f<Pair>;"""
    compiled(source)


def test_non_ascii_comments_and_strings() -> None:
    compiled("// größer ✓\nkernel void f(device float* x) { /* ñ */ x[0] = 1; }")


def test_only_the_kernel_asked_for_is_emitted() -> None:
    source = "kernel void f(device float* x) { x[0] = 1; }\nkernel void other(device float* x) { x[0] = 2; }"
    assert "other" not in compiled(source).ir


def test_recursion_that_the_compiler_can_end() -> None:
    source = """float odd(float x) { if (x < 0) { return -odd(-x); } return x * x * x + 1; }
    kernel void f(device float* x) { x[0] = odd(x[1]); }"""
    ir = compiled(source).ir
    assert "__mc_recursion" not in ir and "@_Z3odd" not in ir


def test_what_is_undefined_has_a_value_on_every_level_of_recursion() -> None:
    source = """float odd(float x) { if (x < 0) { return -odd(-x); } return float(int(x)); }
    kernel void f(device float* x) { x[0] = odd(x[1]); }"""
    ir = compiled(source).ir
    assert "@llvm.fptosi.sat.i32.f32(float" in ir and "= fptosi " not in ir


def test_string_literals_as_arguments() -> None:
    source = """uint copy(device char* to, constant const char* from) { uint i = 0; while (from[i]) { to[i] = from[i]; ++i; } return i; }
    template <typename... Args> void report(device char* to, Args... args) { ((to += copy(to, args)), ...); }
    kernel void f(device char* x) { report(x, "one", __FILE__, __func__); constant char* s = "two"; copy(x, s); }"""
    compiled(source)


def test_torch_headers_are_found_without_importing_torch() -> None:
    source = """#include <c10/metal/special_math.h>
    kernel void f(device float* x) { x[0] = c10::metal::bessel_j1_forward(x[1]) + c10::metal::log_gamma(x[2]); }"""
    unit = make_unit(source)
    assert any(path.endswith("c10/metal/special_math.h") for path, _ in unit.includes)
    lower(unit, "f", None)


@pytest.mark.parametrize("expression", ["v.wzyx * T(2)", "T(2) * v.wzyx", "-v.xyzw", "v.xy.xyxy + v.x", "v.zwxy * v"])
def test_swizzles_as_operands_in_templates(expression: str) -> None:
    source = f"""template <typename T> [[kernel]] void f(device vec<T, 4>* x) {{ vec<T, 4> v = x[0]; x[1] = {expression}; }}
    template [[host_name("f_half")]] [[kernel]] decltype(f<half>) f<half>;"""
    compiled(source, "f_half")


def test_aligned_threadgroup_variables() -> None:
    ir = compiled("kernel void f(device float* x) { alignas(64) threadgroup float s[4]; s[0] = x[0]; x[1] = s[1]; }").ir
    assert any("[4 x float]" in line and "align 64" in line for line in ir.splitlines() if line.startswith("@"))


def test_methods_that_answer_a_reference_into_their_own_space() -> None:
    source = """template <typename T, size_t N> struct Fixed {
      const constant T& operator[](size_t i) const constant { return elements[i]; }
      device T& operator[](size_t i) device { return elements[i]; }
      const device T& operator[](size_t i) const device { return this->elements[i]; }
      thread T& operator[](size_t i) thread { return elements[i]; }
      const thread T& operator[](size_t i) const thread { return elements[i]; }
      threadgroup T& operator[](size_t i) threadgroup { return elements[i]; }
      threadgroup T* data() threadgroup { return &(*this)[0]; }
      constexpr size_t size() const thread { return N; }
      constexpr size_t size() const device { return N; }
      T elements[N];
    };
    constant Fixed<float, 2> table = {{1, 2}};
    kernel void f(device Fixed<float, 4>* x, const device Fixed<float, 4>* y) {
      threadgroup Fixed<float, 4> t;
      Fixed<float, 3> local;
      device float* p = &(*x)[1];
      const device float* q = &(*y)[2];
      constant float* r = &table[1];
      threadgroup float* s = t.data();
      local[0] = *q + *r;
      t[0] = local[0];
      *p = *s + x->size() + local.size();
    }"""
    compiled(source)


@pytest.mark.parametrize(
    "pragma",
    [
        *("STDC FENV_ACCESS ON", "STDC FENV_ROUND FE_UPWARD", "STDC FP_CONTRACT OFF", "clang fp exceptions(strict)"),
        *(
            "clang fp eval_method(extended) contract(off)",
            "float_control(except, on)",
            "float_control(except, on, push)",
        ),
    ],
)
def test_pragmas_of_floating_point_that_metal_does_not_have(pragma: str) -> None:
    source = f"#pragma {pragma}\nkernel void k(device float* o) {{ o[0] = o[0] / 3.0f + 1.0f; }}"
    out = np.ones(1, np.float32)
    metalcore.Library(source).function("k")(out, threads=1)
    assert out[0] == np.float32(1) / np.float32(3) + np.float32(1)


ONLY = {
    "plain": ("kernel void f(device float* x) { x[0] = metal::exp(x[1]); }", True),
    "bfloat": ("kernel void f(device bfloat* x, uint i [[thread_position_in_grid]]) { x[i] = bfloat(i); }", True),
    "two kernels": ("kernel void f(device int* x) { x[0] = 1; } kernel void g(device int* x) { x[0] = 2; }", False),
    "a template": (
        "template <typename T> kernel void t(device T* x) { x[0] = 1; }\n"
        'template [[host_name("f")]] kernel void t<float>(device float* x);',
        False,
    ),
    "a constant": ("constant int n [[function_constant(0)]]; kernel void f(device int* x) { x[0] = n; }", False),
    "a shift without a result": ("kernel void f(device int* x) { x[0] = 1 << 33; }", False),
    "a quotient without a result": ("kernel void f(device int* x) { x[0] = (-2147483647 - 1) / -1; }", False),
    "a list of one value": ("kernel void f(device uint4* x) { uint4 k = {7}; x[0] = k; }", False),
    "an edit": ("kernel void f(device half* x, device bfloat* y) { x[0] = half(y[0]); }", False),
}


@pytest.mark.parametrize("name", ONLY)
def test_the_check_makes_the_ir_of_an_only_kernel(name: str) -> None:
    source, is_made = ONLY[name]
    unit, values = make_unit(source), {0: 3} if name == "a constant" else None
    assert bool(unit.checked_ir) == is_made
    assert lower(unit, "f", values) == lower(replace(unit, checked_ir=""), "f", values)


@pytest.mark.parametrize("headers", ["", None], ids=["no torch", "torch"])
def test_a_unit_knows_whether_torch_could_change_it(headers: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With torch installed and without, and nothing of torch's is asked for: the same unit for all."""
    if headers is not None:
        monkeypatch.setattr("metalcore.engine.frontend.preprocess.torch_headers", lambda: None)
    else:
        pytest.importorskip("torch")
    plain = make_unit("#include <metal_stdlib>\nkernel void k(device int* x) { x[0] = 1; }")
    asks = make_unit("#if __has_include(<c10/metal/none.h>)\n#endif\nkernel void k(device int* x) { x[0] = 1; }")
    assert plain.searched.torch is None
    assert asks.searched.torch is not None

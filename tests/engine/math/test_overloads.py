"""Which overload a call finds: integers, mixed types, vectors, packed vectors, and headers that add their own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import metalcore
from tests.engine.math.launch import run

TYPES = """
static_assert(is_same_v<decltype(exp(1)), float>, "an integer becomes a float");
static_assert(is_same_v<decltype(sqrt(2u)), float>, "an integer becomes a float");
static_assert(is_same_v<decltype(exp(1.0f)), float>, "float");
static_assert(is_same_v<decltype(exp(1.0h)), half>, "half");
static_assert(is_same_v<decltype(exp(bfloat(1))), bfloat>, "bfloat");
static_assert(is_same_v<decltype(pow(2.0f, 3)), float>, "float with an integer");
static_assert(is_same_v<decltype(pow(2.0h, 3)), half>, "half with an integer");
static_assert(is_same_v<decltype(pow(2.0h, 3.0f)), float>, "half with float");
static_assert(is_same_v<decltype(fma(2.0f, 3, 1.0h)), float>, "float with others");
static_assert(is_same_v<decltype(exp(float3(1))), float3>, "vectors");
static_assert(is_same_v<decltype(tanh(half4(1))), half4>, "vectors of half");
static_assert(is_same_v<decltype(sin(packed_float3(1))), float3>, "packed vectors");
static_assert(is_same_v<decltype(pow(float3(1), 2.0f)), float3>, "vector with scalar");
static_assert(is_same_v<decltype(fmin(float2(1), 2)), float2>, "vector with integer");
static_assert(is_same_v<decltype(fast::exp(float4(1))), float4>, "fast");
static_assert(is_same_v<decltype(ilogb(float4(1))), int4>, "integer results");
static_assert(is_same_v<decltype(ldexp(3, 2)), float>, "integers");
static_assert(is_same_v<decltype(ldexp(bfloat(3), 2)), bfloat>, "bfloat");
static_assert(is_same_v<decltype(ilogb(8u)), int>, "integers");
static_assert(is_same_v<decltype(fmax3(1.0h, 2.0h, 3.0h)), half>, "three arguments");
"""


@pytest.mark.feature("math", "overloads for integers, mixed types and vectors")
def test_result_types() -> None:
    source = f"#include <metal_stdlib>\nusing namespace metal;\n{TYPES}kernel void k(device float* o) {{ o[0] = 1; }}\n"
    out = np.zeros(1, np.float32)
    metalcore.Library(source).function("k")(out, threads=1, group_size=1)
    assert out[0] == 1


@pytest.mark.feature("math", "vector math is the scalar math of each component")
def test_vectors_agree_with_scalars() -> None:
    x, y = np.random.default_rng(3).uniform(0.1, 2, (2, 1000)).astype(np.float32)
    vector = [
        "exp(float3(y, x, y)).y",
        "pow(float4(x), y).w",
        "atan2(float2(x, y), float2(y, x)).x",
        "tanh(packed_float3(x, y, y)).x",
    ]
    vector += [
        "[&] { float3 c; return sincos(float3(y, y, x), c).z; }()",
        "[&] { int2 e; return frexp(float2(y, x), e).y + e.y; }()",
    ]
    vector += [
        "ldexp(float2(x, y), int2(3, 4)).y",
        "ldexp(float3(x), 2).z",
        "[&] { float4 w; modf(float4(x * 9), w); return w.y; }()",
    ]
    vector += ["fma(float3(x), y, 1).z", "float(half3(exp(half3(half(x)))).z)"]
    scalar = [
        "exp(x)",
        "pow(x, y)",
        "atan2(x, y)",
        "tanh(x)",
        "sin(x)",
        "[&] { int e; float m = frexp(x, e); return m + e; }()",
    ]
    scalar += [
        "ldexp(y, 4)",
        "ldexp(x, 2)",
        "[&] { float w; modf(x * 9, w); return w; }()",
        "fma(x, y, 1.0f)",
        "float(exp(half(x)))",
    ]
    rows = run(vector + scalar, [x, y])
    for i, call in enumerate(vector):
        assert np.array_equal(rows[i], rows[i + len(vector)]), call


@pytest.mark.feature("math", "integer arguments convert to float")
def test_integer_arguments() -> None:
    x = np.arange(1, 100, dtype=np.int32)
    got = run(
        ["exp(x % 7)", "sqrt(x)", "sqrt(uint(x))", "pow(x, 2)", "pow(2.0f, x % 5)"],
        [x],
        kind="int",
        result="float",
        dtype=np.float32,
    )
    want = [np.exp((x % 7).astype(np.float64)), np.sqrt(x), np.sqrt(x), x.astype(np.float64) ** 2, 2.0 ** (x % 5)]
    np.testing.assert_allclose(got, want, rtol=2e-7)


def _package_include(package: str) -> str:
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
    return str(Path(next(iter(spec.submodule_search_locations))) / "include")


@pytest.mark.feature("math", "MLX's bfloat overloads over ours")
def test_mlx_bfloat_math() -> None:
    source = """
#include <metal_stdlib>
#include "mlx/backend/metal/kernels/bf16.h"
#include "mlx/backend/metal/kernels/bf16_math.h"
kernel void k(device const bfloat16_t* x, device bfloat16_t* o, uint i [[thread_position_in_grid]]) {
  int e;
  o[8 * i] = metal::exp(x[i]);
  o[8 * i + 1] = metal::precise::pow(x[i], x[i]);
  o[8 * i + 2] = metal::fast::tanh(x[i]);
  o[8 * i + 3] = metal::max(x[i], bfloat16_t(1.0f));
  o[8 * i + 4] = metal::frexp(x[i], e);
  o[8 * i + 5] = metal::fma(x[i], x[i], x[i]);
  o[8 * i + 6] = metal::fdim(x[i], bfloat16_t(1.0f));
  o[8 * i + 7] = abs(floor(-x[i]));
}
"""
    import ml_dtypes

    x = np.linspace(0.1, 4, 64).astype(ml_dtypes.bfloat16)
    out = np.empty((64, 8), ml_dtypes.bfloat16)
    metalcore.Library(source, include_dirs=[_package_include("mlx")]).function("k")(x, out, threads=64, group_size=64)
    wide = x.astype(np.float64)
    want = [np.exp(wide), wide**wide, np.tanh(wide), np.maximum(wide, 1), np.frexp(wide)[0], wide * wide + wide]
    want += [np.maximum(wide - 1, 0), np.abs(np.floor(-wide))]
    np.testing.assert_allclose(out.astype(np.float64), np.stack(want, axis=1), rtol=2**-8)


@pytest.mark.feature("math", "PyTorch's c10/metal headers over ours")
def test_c10_metal_headers() -> None:
    source = """
#include <c10/metal/special_math.h>
#include <c10/metal/utils.h>
kernel void k(device const float* x, device float* o, uint i [[thread_position_in_grid]]) {
  o[4 * i] = c10::metal::log1p(x[i]);
  o[4 * i + 1] = c10::metal::erf(x[i]);
  o[4 * i + 2] = c10::metal::sinc(x[i]);
  o[4 * i + 3] = c10::metal::i0(x[i]);
}
"""
    import math

    x = np.linspace(0.1, 4, 64).astype(np.float32)
    out = np.empty((64, 4), np.float32)
    metalcore.Library(source, include_dirs=[_package_include("torch")]).function("k")(x, out, threads=64, group_size=64)
    wide = x.astype(np.float64)
    want = [np.log1p(wide), [math.erf(v) for v in wide], np.sinc(wide), np.i0(wide)]
    np.testing.assert_allclose(out, np.stack(want, axis=1), rtol=2e-5, atol=2e-6)

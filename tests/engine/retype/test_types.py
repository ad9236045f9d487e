"""`float_type="double"`: what the host sees, what literals and types become, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError, CompileError
from tests.engine.retype.helpers import HEADER, close, evaluate, library

RMS = """
constant bool has_weight [[function_constant(0)]];
constant float scale [[function_constant(1)]];
template <typename T>
kernel void rms(device const T* x [[buffer(0)]], device const T* w [[buffer(1), function_constant(has_weight)]],
    device T* y [[buffer(2)]], constant float& eps [[buffer(3)]], constant uint& n [[buffer(4)]],
    uint row [[threadgroup_position_in_grid]], uint lid [[thread_position_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint sg [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[2];
  float sum = 0;
  for (uint i = lid; i < n; i += 64) { float v = x[row * n + i]; sum += v * v; }
  sum = simd_sum(sum);
  if (lane == 0) partial[sg] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float r = rsqrt((partial[0] + partial[1]) / n + eps) * scale;
  for (uint i = lid; i < n; i += 64) y[row * n + i] = T(float(x[row * n + i]) * r * (has_weight ? float(w[i]) : 1.0f));
}
#define INSTANCE(name, T) template [[host_name(name)]] kernel void rms<T>(device const T*, device const T*, \\
    device T*, constant float&, constant uint&, uint, uint, uint, uint);
INSTANCE("rms_float", float)
INSTANCE("rms_half", half)
INSTANCE("rms_bfloat", bfloat)
"""


@pytest.mark.feature("API", "Library(float_type='double') reads float as double")
@pytest.mark.parametrize("mode", ["checked", "fast", "sanitize"])
def test_templates_in_every_mode(mode: str) -> None:
    dtypes = {"rms_float": torch.float64} | ({"rms_bfloat": torch.bfloat16} if mode == "fast" else {})
    lib = library(RMS)
    torch.manual_seed(3)
    with metalcore.mode(mode, also=["not-finite"] if mode == "sanitize" else ()) as report:
        for name, dtype in dtypes.items():
            kernel = lib.function(name, constants={"has_weight": True, "scale": 0.1})
            x, w = torch.randn(3, 100, dtype=torch.float64).to(dtype), torch.randn(100, dtype=torch.float64).to(dtype)
            y = torch.empty_like(x)
            kernel(x, w, y, 1e-6, 100, threadgroups=3, group_size=64)
            wide = x.double()
            wanted = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6) * 0.1 * w.double()
            torch.testing.assert_close(y, wanted.to(dtype), rtol=0 if dtype != torch.float64 else 1e-14, atol=0)
    assert mode != "sanitize" or not report.findings


def test_arguments_and_binding() -> None:
    lib = library(RMS)
    kernel = lib.function("rms_float", constants={0: False, 1: 1.0})
    seen = {a.name: (a.type, a.scalar, a.element_size) for a in kernel.arguments if a.kind != "builtin"}
    assert seen["x"] == seen["eps"] == ("float", "float64", 8) and seen["n"] == ("uint", "uint32", 4)
    x, y = np.ones(10), np.zeros(10)
    with pytest.raises(ArgumentError, match="must be an array of float64, the NumPy array of float32"):
        kernel(x.astype(np.float32), None, y, 0.0, 10, threadgroups=1, group_size=64)
    with pytest.raises(ArgumentError, match="it needs 8 bytes, the NumPy scalar"):
        kernel(x, None, y, np.float32(0), 10, threadgroups=1, group_size=64)
    kernel(x, None, y, np.float64(1e-300), 10, threadgroups=1, group_size=64)
    np.testing.assert_array_equal(y, x)


def test_same_source_in_both_types() -> None:
    source = HEADER + "kernel void k(device float* x [[buffer(0)]]) { x[0] = 0.1f; x[1] = sizeof(float); }"
    for float_type, dtype in (("float", np.float32), ("double", np.float64)):
        x = np.zeros(2, dtype)
        metalcore.Library(source, float_type=float_type).function("k")(x, threads=1)
        assert x.tolist() == [dtype(0.1), x.itemsize]


def test_literals_constants_and_limits() -> None:
    texts = {
        "0.7978845608028654f": 0.7978845608028654,
        "1e-300 * 1e+300F": 1.0,
        "0x1.8p1f + .1": 3.1,
        "1.5h": 1.5,
        "float(0.1h)": float(np.float16(0.1)),
        "M_PI_F": math.pi,
        "INFINITY": math.inf,
        "FLT_MAX": np.finfo(np.float64).max,
        "numeric_limits<float>::epsilon()": np.finfo(np.float64).eps,
        "numeric_limits<float>::lowest()": np.finfo(np.float64).min,
        "-numeric_limits<float>::infinity()": -math.inf,
        "float(METALCORE_DOUBLE)": 1.0,
        "table[2]": 1 / 3,
        "float(sizeof(pair))": 64.0,
        "exp(1)": math.e,
    }
    setup = "struct pair { float first; float4 rest; }; const float table[3] = {1, 2, 1.0f / 3};"
    got = evaluate(list(texts), np.zeros(1), setup=setup)[:, 0]
    np.testing.assert_array_equal(got, list(texts.values()))


def test_vectors_and_layouts() -> None:
    source = """
    struct row { packed_float3 v; float s; };
    kernel void k(device const float4* a, device const row* b, device float3* c, constant float2& d, device float* e,
        uint i [[thread_position_in_grid]]) {
      float4 v = a[i];
      c[i] = float3(b[i].v) * b[i].s + v.wzy;
      e[i] = dot(v, v.yxwz) + length(v) + d.y + distance(v.xy, d) + normalize(v).x + float4x4(2.0f)[1][1];
    }"""
    rng = np.random.default_rng(5)
    a, b, c, e = rng.standard_normal((40, 4)), rng.standard_normal((40, 4)), np.zeros((40, 4)), np.zeros(40)
    rows = np.ascontiguousarray(b).view(np.dtype([("v", "<f8", 3), ("s", "<f8")]))
    library(source).function("k")(a, rows, c, (0.25, 0.1), e, threads=40)
    close(c[:, :3], b[:, :3] * b[:, 3:] + a[:, [3, 2, 1]], 1e-13)
    length, near = np.sqrt((a * a).sum(1)), np.hypot(a[:, 0] - 0.25, a[:, 1] - 0.1)
    close(e, (a * a[:, [1, 0, 3, 2]]).sum(1) + length + 0.1 + near + a[:, 0] / length + 2, 1e-12)


def test_narrow_types_round_once() -> None:
    source = """
    kernel void k(device const float* x, device half* h, device bfloat* b, device float* wide, device int* n,
        uint i [[thread_position_in_grid]]) {
      h[i] = half(x[i]); b[i] = bfloat(x[i]); wide[i] = float(h[i]) + float(b[i]); n[i] = int(x[i]); }"""
    ties = [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11 - 2.0**-40, 1 + 2.0**-8 + 2.0**-45, 1 + 2.0**-8, 65519.99999999999]
    x = np.array(ties + [-t for t in ties] + [65520.0, 1e-8, 3e-8, 1e300, math.inf, math.nan, 2.0**-24 * 1.5])
    h, b = np.zeros(len(x), np.float16), torch.zeros(len(x), dtype=torch.bfloat16)
    wide, n = np.zeros(len(x)), np.zeros(len(x), np.int32)
    library(source).function("k")(x, h, b, wide, n, threads=len(x))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(h, x.astype(np.float16))
    assert b[:5].tolist() == [1.0, 1.0, 1.0078125, 1.0, 65536.0]
    np.testing.assert_array_equal(wide, h.astype(np.float64) + b.double().numpy())
    assert n[[4, 9, 13]].tolist() == [65519, -65519, 2**31 - 1]


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentError, match="float_type='quad' must be one of float, double"):
        metalcore.Library("kernel void k() {}", float_type="quad")
    bits = "kernel void k(device float* x, device uint* y) { y[0] = as_type<uint>(x[0]); }"
    with pytest.raises(CompileError, match="with METALCORE_DOUBLE a float has 8 bytes"):
        library(bits)
    with pytest.raises(CompileError, match="'double' is not supported in Metal"):
        library("kernel void k(device double* x) { x[0] = 1; }")
    with pytest.raises(CompileError, match="from float to bfloat"):
        library("kernel void k(device bfloat* x, device float* y) { x[0] = y[0]; }")


class Squash(torch.autograd.Function):
    """y = tanh(x) exp(-x^2), forward and backward by a kernel."""

    SOURCE = """
    kernel void forward(device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
      y[i] = tanh(x[i]) * exp(-x[i] * x[i]);
    }
    kernel void backward(device const float* x, device const float* dy, device float* dx,
        uint i [[thread_position_in_grid]]) {
      float t = tanh(x[i]);
      dx[i] = dy[i] * (1 - t * t - 2 * x[i] * t) * exp(-x[i] * x[i]);
    }"""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        library(Squash.SOURCE).function("forward")(x.detach(), y, threads=x.numel())
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, dy: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        dx = torch.empty_like(x)
        library(Squash.SOURCE).function("backward")(x.detach(), dy.contiguous(), dx, threads=x.numel())
        return dx


def test_gradcheck_on_the_kernels_own_source() -> None:
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Squash.apply, (x,))

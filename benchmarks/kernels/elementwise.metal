// One thread an element: y = a x + y, silu(x) = x / (1 + e^-x), and gelu in its tanh form (arXiv:1606.08415).
#include <metal_stdlib>
using namespace metal;

kernel void saxpy(
    device const float* x [[buffer(0)]],
    device float* y [[buffer(1)]],
    constant float& a [[buffer(2)]],
    uint i [[thread_position_in_grid]]) {
  y[i] = a * x[i] + y[i];
}

kernel void silu(
    device const float* x [[buffer(0)]],
    device float* y [[buffer(1)]],
    uint i [[thread_position_in_grid]]) {
  const float v = x[i];
  y[i] = v / (1.0f + exp(-v));
}

kernel void gelu(
    device const float* x [[buffer(0)]],
    device float* y [[buffer(1)]],
    uint i [[thread_position_in_grid]]) {
  const float v = x[i];
  const float inner = M_2_SQRTPI_F * M_SQRT1_2_F * (v + 0.044715f * v * v * v);
  y[i] = 0.5f * v * (1.0f + tanh(inner));
}

// Four arrays and next to no work: what is left is the cost of a launch.
kernel void tiny(
    device const float* a [[buffer(0)]],
    device const float* b [[buffer(1)]],
    device const float* c [[buffer(2)]],
    device float* out [[buffer(3)]],
    uint i [[thread_position_in_grid]]) {
  out[i] = a[i] * b[i] + c[i];
}

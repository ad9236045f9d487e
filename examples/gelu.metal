// gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))); Hendrycks and Gimpel, arXiv:1606.08415
#include <metal_stdlib>
using namespace metal;

kernel void gelu(
    device const float* x [[buffer(0)]],
    device float* y [[buffer(1)]],
    uint i [[thread_position_in_grid]]) {
  const float v = x[i];
  const float inner = 0.7978845608028654f * (v + 0.044715f * v * v * v);
  y[i] = 0.5f * v * (1.0f + precise::tanh(inner));
}

// Gradients of sums: dx = g, of dot products: dx = g y, of norms: dx = g x / norm, where g is that of the sum's row.
#include <metal_stdlib>
using namespace metal;

constant bool is_sum [[function_constant(0)]];
constant bool is_norm [[function_constant(1)]];

// A thread takes an element. `x` is what g is multiplied with.
template <typename T>
[[kernel]] void precise_gradient(
    device const float* grad [[buffer(0)]],
    device const float* norm [[buffer(1)]],
    device const T* x [[buffer(2)]],
    device T* dx [[buffer(3)]],
    constant long& width [[buffer(4)]],
    uint3 position [[thread_position_in_grid]],
    uint3 group [[threadgroup_position_in_grid]]) {
  const uint column = position.x;
  const ulong row = group.y;
  if (column >= width) {
    return;
  }
  float slope = is_sum ? 1.0f : float(x[row * width + column]);
  if (is_norm) {
    slope = norm[row] == 0.0f ? 0.0f : slope / norm[row];  // as torch: the norm has no slope at 0
  }
  dx[row * width + column] = T(grad[row] * slope);
}

// NaN and infinity made from finite numbers.
#include <metal_stdlib>
using namespace metal;

// A softmax that does not subtract the maximum.
// also: not-finite
// launch: threads=32 group_size=32 x=float32[32]:120 y=float32[32]:0
kernel void softmax_without_the_maximum(
    constant bool& fixed, device const float* x, device float* y, uint lane [[thread_index_in_simdgroup]]) {
  float most = fixed ? simd_max(x[lane]) : 0;
  float e = exp(x[lane] - most);  // expect: not-finite thread 0
  float sum = simd_sum(e);
  y[lane] = fixed ? e / sum : e;
}

// The mean of nothing.
// also: not-finite
// launch: threads=4 group_size=4 sums=float32[4]:0 counts=float32:1,0,2,3 y=float32[4]:0
kernel void zero_over_zero(
    constant bool& fixed,
    device const float* sums, device const float* counts, device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = sums[i] / (fixed ? max(counts[i], 1.0f) : counts[i]);  // expect: not-finite thread 1
}

// A norm of a constant row, without an epsilon.
// also: not-finite
// launch: threads=32 group_size=32 x=float32[32]:3 y=float32[32]:0
kernel void no_epsilon(
    constant bool& fixed, device const float* x, device float* y, uint lane [[thread_index_in_simdgroup]]) {
  float away = x[lane] - 3;
  float variance = simd_sum(away * away) / 32;
  y[lane] = 2 * rsqrt(variance + (fixed ? 1e-5f : 0.0f));  // expect: not-finite thread 0
}

// Half overflows at 65504.
// also: not-finite
// launch: threads=8 group_size=8 x=float16[8]:300 y=float16[8]:0
kernel void square_of_a_half(
    constant bool& fixed, device const half* x, device half* y, uint i [[thread_position_in_grid]]) {
  half v = x[i];
  if (fixed) v = v / 16;
  y[i] = v * v;  // expect: not-finite thread 0
}

// The logarithm of a probability that is zero.
// also: not-finite
// launch: threads=4 group_size=4 p=float32:0.5,0.25,0,0.25 y=float32[4]:0
kernel void logarithm_of_zero(
    constant bool& fixed, device const float* p, device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = log(fixed ? max(p[i], 1e-20f) : p[i]);  // expect: not-finite thread 2
}

#include <metal_stdlib>
using namespace metal;

// RMS norm of a row, four elements at a time, and a tail.
kernel void rms_norm(
    device const float* x, device const float* weight, device float* y, constant uint& n,
    uint row [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]],
    uint size [[threads_per_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[2];
  threadgroup float scale[1];
  device const packed_float4* in = (device const packed_float4*)(x + row * n);
  uint whole = n / 4;
  float sum = 0;
  for (uint i = t; i < whole; i += size) {
    float4 v = float4(in[i]);
    sum += dot(v, v);
  }
  for (uint i = whole * 4 + t; i < n; i += size) {
    sum += x[row * n + i] * x[row * n + i];
  }
  sum = simd_sum(sum);
  if (lane == 0) partial[group] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t == 0) scale[0] = rsqrt((partial[0] + partial[1]) / n + 1e-6f);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = t; i < n; i += size) {
    y[row * n + i] = x[row * n + i] * scale[0] * weight[i];
  }
}

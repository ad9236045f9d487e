#include <metal_stdlib>
using namespace metal;

// Layer norm of a row that is kept in threadgroup memory.
kernel void layer_norm(
    device const float* x, device const float* weight, device float* y, constant uint& n,
    uint row [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]],
    uint size [[threads_per_threadgroup]]) {
  threadgroup float values[160];
  threadgroup float sums[64];
  float sum = 0;
  for (uint i = t; i < n; i += size) {
    values[i] = x[row * n + i];
    sum += values[i];
  }
  sums[t] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float mean = 0;
  for (uint j = 0; j < size; ++j) mean += sums[j];
  mean /= n;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = 0;
  for (uint i = t; i < n; i += size) sum += (values[i] - mean) * (values[i] - mean);
  sums[t] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float variance = 0;
  for (uint j = 0; j < size; ++j) variance += sums[j];
  float scale = rsqrt(variance / n + 1e-5f);
  for (uint i = t; i < n; i += size) {
    y[row * n + i] = (values[i] - mean) * scale * weight[i];
  }
}

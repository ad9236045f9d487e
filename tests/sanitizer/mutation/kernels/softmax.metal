#include <metal_stdlib>
using namespace metal;

// Softmax of a row: maximum, sum of exponentials, division; the slots are used twice.
kernel void softmax(
    device const float* x, device float* y, constant uint& n, uint row [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]], uint size [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]],
    uint groups [[simdgroups_per_threadgroup]]) {
  threadgroup float slots[32];
  device const float* in = x + row * n;
  float most = -INFINITY;
  for (uint i = t; i < n; i += size) most = max(most, in[i]);
  most = simd_max(most);
  if (lane == 0) slots[group] = most;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  most = simd_max(lane < groups ? slots[lane] : -INFINITY);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0;
  for (uint i = t; i < n; i += size) sum += exp(in[i] - most);
  sum = simd_sum(sum);
  if (lane == 0) slots[group] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = simd_sum(lane < groups ? slots[lane] : 0);
  for (uint i = t; i < n; i += size) y[row * n + i] = exp(in[i] - most) / sum;
}

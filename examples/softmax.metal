// softmax of each row, with the row's maximum subtracted so that nothing overflows.
#include <metal_stdlib>
using namespace metal;

kernel void softmax(
    device const float* x [[buffer(0)]],
    device float* y [[buffer(1)]],
    constant uint& columns [[buffer(2)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  device const float* in = x + row * columns;
  device float* out = y + row * columns;

  float largest = -INFINITY;
  for (uint i = lid; i < columns; i += group_size) {
    largest = max(largest, in[i]);
  }
  largest = simd_max(largest);
  if (simd_lane_id == 0) {
    partial[simd_group_id] = largest;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  largest = simd_max(simd_lane_id < simd_groups ? partial[simd_lane_id] : -INFINITY);
  threadgroup_barrier(mem_flags::mem_threadgroup);

  float sum = 0;
  for (uint i = lid; i < columns; i += group_size) {
    const float e = exp(in[i] - largest);
    out[i] = e;
    sum += e;
  }
  sum = simd_sum(sum);
  if (simd_lane_id == 0) {
    partial[simd_group_id] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float total = simd_sum(simd_lane_id < simd_groups ? partial[simd_lane_id] : 0.0f);

  for (uint i = lid; i < columns; i += group_size) {
    out[i] /= total;
  }
}

// Sums: of each row, of everything (run twice: many groups, then one), and running sums along each row.
#include "group.h"

kernel void row_sum(
    device const float* x [[buffer(0)]],
    device float* out [[buffer(1)]],
    constant uint& columns [[buffer(2)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  x += row * columns;
  float sum = 0;
  for (uint i = lid; i < columns; i += group_size) {
    sum += x[i];
  }
  sum = group_sum(sum, partial, {simd_lane_id, simd_group_id, simd_groups});
  if (lid == 0) {
    out[row] = sum;
  }
}

// Each threadgroup sums `chunk` neighbouring elements.
kernel void chunk_sum(
    device const float* x [[buffer(0)]],
    device float* out [[buffer(1)]],
    constant uint& count [[buffer(2)]],
    constant uint& chunk [[buffer(3)]],
    uint group_id [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const uint start = group_id * chunk;
  const uint end = min(start + chunk, count);
  float sum = 0;
  for (uint i = start + lid; i < end; i += group_size) {
    sum += x[i];
  }
  sum = group_sum(sum, partial, {simd_lane_id, simd_group_id, simd_groups});
  if (lid == 0) {
    out[group_id] = sum;
  }
}

// One threadgroup a row. Each step scans group_size elements and carries their total on.
kernel void row_scan(
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
  x += row * columns;
  y += row * columns;
  float carry = 0;
  for (uint start = 0; start < columns; start += group_size) {
    const uint i = start + lid;
    float running = simd_prefix_inclusive_sum(i < columns ? x[i] : 0.0f);
    float total = simd_broadcast(running, 31);
    if (simd_groups > 1) {
      if (simd_lane_id == 0) {
        partial[simd_group_id] = total;
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      const float sum = simd_lane_id < simd_groups ? partial[simd_lane_id] : 0.0f;
      running += simd_sum(simd_lane_id < simd_group_id ? sum : 0.0f);
      total = simd_sum(sum);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (i < columns) {
      y[i] = carry + running;
    }
    carry += total;
  }
}

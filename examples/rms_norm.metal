// y = x / sqrt(mean(x^2) + eps) * w for each row; Zhang and Sennrich, arXiv:1910.07467
// One threadgroup a row: each simdgroup sums its share, then the first one sums the sums.
#include <metal_stdlib>
using namespace metal;

kernel void rms_norm(
    device const float* x [[buffer(0)]],
    device const float* w [[buffer(1)]],
    device float* y [[buffer(2)]],
    constant uint& columns [[buffer(3)]],
    constant float& eps [[buffer(4)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  device const float* in = x + row * columns;

  float sum = 0;
  for (uint i = lid; i < columns; i += group_size) {
    sum += in[i] * in[i];
  }
  sum = simd_sum(sum);
  if (simd_lane_id == 0) {
    partial[simd_group_id] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float total = simd_sum(simd_lane_id < simd_groups ? partial[simd_lane_id] : 0.0f);

  const float scale = precise::rsqrt(total / columns + eps);
  device float* out = y + row * columns;
  for (uint i = lid; i < columns; i += group_size) {
    out[i] = in[i] * scale * w[i];
  }
}

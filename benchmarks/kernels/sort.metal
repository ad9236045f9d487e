// Bitonic sort (Batcher, 1968) of blocks of 1,024 floats, one threadgroup of 1,024 threads a block, ascending.
// A thread keeps one element. Partners less than 32 apart are in one simdgroup and meet through a shuffle; the others
// meet in threadgroup memory.
#include <metal_stdlib>
using namespace metal;

constant constexpr uint BLOCK = 1024;

// The smaller of the pair goes to the lower index where the run ascends.
inline float keep(float mine, float other, bool lower, bool ascending) {
  return lower == ascending ? min(mine, other) : max(mine, other);
}

inline float exchange_lanes(float v, uint stride, uint lane, bool ascending) {
  return keep(v, simd_shuffle_xor(v, stride), (lane & stride) == 0, ascending);
}

kernel void bitonic_sort(
    device const float* x [[buffer(0)]],
    device float* y [[buffer(1)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]]) {
  threadgroup float shared[BLOCK];
  float v = x[block * BLOCK + lid];

  for (uint run = 2; run <= BLOCK; run *= 2) {
    const bool ascending = (lid & run) == 0;
    for (uint stride = run / 2; stride >= 32; stride /= 2) {
      const uint distance = stride / 32;  // in simdgroups
      shared[lid] = v;
      threadgroup_barrier(mem_flags::mem_threadgroup);
      const float other = shared[(simd_group_id ^ distance) * 32 + lane];
      v = keep(v, other, (simd_group_id & distance) == 0, ascending);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    for (uint stride = min(run / 2, 16u); stride > 0; stride /= 2) {
      v = exchange_lanes(v, stride, lane, ascending);
    }
  }
  y[block * BLOCK + lid] = v;
}

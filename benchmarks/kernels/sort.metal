// Bitonic sort (Batcher, 1968) of blocks of 1,024 floats, one threadgroup of 1,024 threads a block, ascending.
// A thread keeps one element. Partners less than 32 apart are in one simdgroup and meet through a shuffle; the others
// meet in threadgroup memory.
#include <metal_stdlib>
using namespace metal;

constant constexpr uint BLOCK = 1024;

// What a thread keeps of a pair: the smaller one if it is the lower thread of an ascending run, or the upper one of a
// descending run.
inline float keep(float mine, float other, bool smaller) {
  return (mine < other) == smaller ? mine : other;
}

// All strides from START down to 1, inside the simdgroup.
template <ushort START>
inline float merge_lanes(float v, ushort lane, bool ascending) {
#pragma unroll
  for (ushort stride = START; stride > 0; stride /= 2) {
    v = keep(v, simd_shuffle_xor(v, stride), ((lane & stride) == 0) == ascending);
  }
  return v;
}

kernel void bitonic_sort(
    device const float* x [[buffer(0)]],
    device float* y [[buffer(1)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    ushort lane [[thread_index_in_simdgroup]],
    ushort simd_group_id [[simdgroup_index_in_threadgroup]]) {
  threadgroup float shared[BLOCK];
  float v = x[block * BLOCK + lid];

  v = merge_lanes<1>(v, lane, (lane & 2) == 0);
  v = merge_lanes<2>(v, lane, (lane & 4) == 0);
  v = merge_lanes<4>(v, lane, (lane & 8) == 0);
  v = merge_lanes<8>(v, lane, (lane & 16) == 0);
  v = merge_lanes<16>(v, lane, (simd_group_id & 1) == 0);

  // Longer runs: `run` and `stride` count simdgroups.
  for (ushort run = 2; run <= BLOCK / 32; run *= 2) {
    const bool ascending = (simd_group_id & run) == 0;
    for (ushort stride = run / 2; stride > 0; stride /= 2) {
      shared[lid] = v;
      threadgroup_barrier(mem_flags::mem_threadgroup);
      const float other = shared[(simd_group_id ^ stride) * 32 + lane];
      v = keep(v, other, ((simd_group_id & stride) == 0) == ascending);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    v = merge_lanes<16>(v, lane, ascending);
  }
  y[block * BLOCK + lid] = v;
}

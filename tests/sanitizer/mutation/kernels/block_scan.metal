#include <metal_stdlib>
using namespace metal;

// Prefix sum of a long row by one threadgroup, block after block: the carry goes from block to block.
kernel void block_scan(
    device const int* x, device int* y, constant uint& n, uint row [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]], uint size [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup int totals[4];
  threadgroup int carry[1];
  if (t == 0) carry[0] = 0;
  for (uint block = 0; block < n; block += size) {
    uint i = block + t;
    int v = i < n ? x[row * n + i] : 0;
    int sum = simd_prefix_inclusive_sum(v);
    if (lane == 31) totals[group] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    int before = carry[0];
    for (uint g = 0; g < group; ++g) before += totals[g];
    if (i < n) y[row * n + i] = before + sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t == size - 1) carry[0] = before + sum;
  }
}

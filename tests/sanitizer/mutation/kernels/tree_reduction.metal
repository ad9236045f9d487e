#include <metal_stdlib>
using namespace metal;

// Sum of each row: a strided loop, then a tree in threadgroup memory.
kernel void tree_reduction(
    device const float* x, device float* y, constant uint& n, uint row [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]], uint size [[threads_per_threadgroup]]) {
  threadgroup float sums[128];
  float sum = 0;
  for (uint i = t; i < n; i += size) {
    sum += x[row * n + i];
  }
  sums[t] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint step = 64; step > 0; step >>= 1) {
    if (t < step) sums[t] += sums[t + step];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (t == 0) y[row] = sums[0];
}

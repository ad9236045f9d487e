#include <metal_stdlib>
using namespace metal;

// Inclusive prefix sum of one row by doubling steps, between two halves of one buffer.
kernel void scan(
    device const int* x, device int* y, constant uint& n, uint row [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]]) {
  threadgroup int sums[2][96];
  uint now = 0;
  sums[now][t] = t < n ? x[row * n + t] : 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint step = 1; step < 96; step <<= 1) {
    int left = t >= step ? sums[now][t - step] : 0;
    sums[1 - now][t] = sums[now][t] + left;
    now = 1 - now;
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (t < n) y[row * n + t] = sums[now][t];
}

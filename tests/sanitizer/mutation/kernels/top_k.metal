#include <metal_stdlib>
using namespace metal;

// The k largest of a row and where they are: k times the maximum, which is then taken out.
kernel void top_k(
    device const float* x, device float* values, device int* places, constant uint& n, constant uint& k,
    uint row [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {
  threadgroup float left[128];
  threadgroup float best[128];
  threadgroup int where[128];
  left[t] = t < n ? x[row * n + t] : -INFINITY;
  for (uint round = 0; round < k; ++round) {
    best[t] = left[t];
    where[t] = int(t);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint step = 64; step > 0; step >>= 1) {
      if (t < step && best[t + step] > best[t]) {
        best[t] = best[t + step];
        where[t] = where[t + step];
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (t == 0) {
      values[row * k + round] = best[0];
      places[row * k + round] = where[0];
      left[where[0]] = -INFINITY;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

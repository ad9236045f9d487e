#include <metal_stdlib>
using namespace metal;

// Sorts up to 128 keys of a row in threadgroup memory.
kernel void bitonic_sort(
    device const float* x, device float* y, constant uint& n, constant uint& padded,
    uint row [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {
  threadgroup float keys[128];
  keys[t] = t < n ? x[row * n + t] : INFINITY;
  for (uint size = 2; size <= padded; size <<= 1) {
    for (uint step = size >> 1; step > 0; step >>= 1) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      uint other = t ^ step;
      if (t < other) {
        float a = keys[t];
        float b = keys[other];
        bool is_up = (t & size) == 0;
        if ((a > b) == is_up) {
          keys[t] = b;
          keys[other] = a;
        }
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t < n) y[row * n + t] = keys[t];
}

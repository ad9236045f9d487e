#include <metal_stdlib>
using namespace metal;

// Convolution of several channels with five taps; signal and taps are kept in threadgroup memory.
kernel void conv1d(
    device const float* x, device const float* taps, device float* y, constant uint& channels, constant uint& n,
    uint block [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]],
    uint size [[threads_per_threadgroup]]) {
  threadgroup float tile[68];
  threadgroup float weights[5];
  uint i = block * 64 + t;
  float sum = 0;
  for (uint c = 0; c < channels; ++c) {
    for (uint j = t; j < 68; j += size) {
      uint from = block * 64 + j;
      tile[j] = from >= 2 && from < n + 2 ? x[c * n + from - 2] : 0;
    }
    if (t < 5) weights[t] = taps[c * 5 + t];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint j = 0; j < 5; ++j) sum += tile[t + j] * weights[j];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (i < n) y[i] = sum;
}

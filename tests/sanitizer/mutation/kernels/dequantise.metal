#include <metal_stdlib>
using namespace metal;

// Two 4-bit codes in a byte, a scale and an offset for each 16 of them; the scales go to threadgroup memory.
kernel void dequantise(
    device const uchar* codes, device const float* scales, device const float* offsets, device float* y,
    constant uint& n, uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]],
    uint block [[threadgroup_position_in_grid]]) {
  threadgroup float scale[8];
  threadgroup float offset[8];
  uint first = block * 8;
  if (t < 8 && (first + t) * 16 < n) {
    scale[t] = scales[first + t];
    offset[t] = offsets[first + t];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint low = i * 2;
  uint high = i * 2 + 1;
  if (low < n) y[low] = float(codes[i] & 15) * scale[t / 8] + offset[t / 8];
  if (high < n) y[high] = float(codes[i] >> 4) * scale[t / 8] + offset[t / 8];
}

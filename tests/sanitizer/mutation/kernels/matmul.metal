#include <metal_stdlib>
using namespace metal;

// C = A B with tiles of 16 x 16; tiles past the edge hold zeros.
kernel void matmul(
    device const float* a, device const float* b, device float* c, constant uint& m, constant uint& n,
    constant uint& k, uint2 group [[threadgroup_position_in_grid]], uint2 t [[thread_position_in_threadgroup]]) {
  threadgroup float left[16][16];
  threadgroup float right[16][16];
  uint row = group.y * 16 + t.y;
  uint column = group.x * 16 + t.x;
  float sum = 0;
  for (uint at = 0; at < k; at += 16) {
    left[t.y][t.x] = row < m && at + t.x < k ? a[row * k + at + t.x] : 0;
    right[t.y][t.x] = at + t.y < k && column < n ? b[(at + t.y) * n + column] : 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint j = 0; j < 16; ++j) {
      sum += left[t.y][j] * right[j][t.x];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

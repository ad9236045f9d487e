// c = a @ b through 16x16 tiles in threadgroup memory.
#include <metal_stdlib>
using namespace metal;

constant constexpr uint TILE = 16;

kernel void matmul(
    device const float* a [[buffer(0)]],
    device const float* b [[buffer(1)]],
    device float* c [[buffer(2)]],
    constant uint3& size [[buffer(3)]],  // rows of a, columns of b, columns of a
    uint2 gid [[thread_position_in_grid]],
    uint2 lid [[thread_position_in_threadgroup]]) {
  threadgroup float a_tile[TILE][TILE];
  threadgroup float b_tile[TILE][TILE];
  const uint m = size.x, n = size.y, k = size.z;

  float sum = 0;
  for (uint start = 0; start < k; start += TILE) {
    const uint ak = start + lid.x, bk = start + lid.y;
    a_tile[lid.y][lid.x] = gid.y < m && ak < k ? a[gid.y * k + ak] : 0.0f;
    b_tile[lid.y][lid.x] = bk < k && gid.x < n ? b[bk * n + gid.x] : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = 0; i < TILE; ++i) {
      sum += a_tile[lid.y][i] * b_tile[i][lid.x];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (gid.y < m && gid.x < n) {
    c[gid.y * n + gid.x] = sum;
  }
}

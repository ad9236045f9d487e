// Small steps of gradients, on batches of square matrices; a threadgroup has 32 rows of one.
#include <metal_stdlib>
using namespace metal;

constant constexpr uint LANES = 32;

// out = scale (a + a^T)
template <typename T>
[[kernel]] void add_transpose(
    device const T* a [[buffer(0)]],
    device T* out [[buffer(1)]],
    constant long& size [[buffer(2)]],
    constant float& scale [[buffer(3)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint n = size, end = min(group.x * LANES + LANES, n);
  a += group.y * size * size;
  out += group.y * size * size;
  for (uint i = group.x * LANES; i < end; i++) {
    for (uint j = lane; j < n; j += LANES) {
      out[i * size + j] = T(scale * (float(a[i * size + j]) + float(a[j * size + i])));
    }
  }
}

// out = I
template <typename T>
[[kernel]] void fill_identity(
    device T* out [[buffer(0)]],
    constant long& size [[buffer(1)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint n = size, end = min(group.x * LANES + LANES, n);
  out += group.y * size * size;
  for (uint i = group.x * LANES; i < end; i++) {
    for (uint j = lane; j < n; j += LANES) {
      out[i * size + j] = T(i == j ? 1.0f : 0.0f);
    }
  }
}

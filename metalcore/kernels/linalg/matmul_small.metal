// Products that leave most of a tile empty: y = alpha a x of a matrix and a vector, and batches of tiny matrices.
#include "linalg/lanes.h"

constant constexpr uint ROWS = 4;  // of a that a simdgroup takes at once: a number of x is read once for all

// y = alpha a x; lanes run along rows of a. One simdgroup a threadgroup.
template <typename T>
[[kernel]] void matmul_vector(
    device const T* a [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device T* y [[buffer(2)]],
    constant long& rows [[buffer(3)]],
    constant long& columns [[buffer(4)]],
    constant long& a_stride [[buffer(5)]],
    constant long& x_stride [[buffer(6)]],
    constant float& alpha [[buffer(7)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const long first = group.x * long(ROWS);
  const uint width = columns;
  device const T* a0 = a + group.y * a_stride + first * columns;
  device const T* a1 = a0 + (first + 1 < rows ? columns : 0);
  device const T* a2 = a0 + (first + 2 < rows ? 2 * columns : 0);
  device const T* a3 = a0 + (first + 3 < rows ? 3 * columns : 0);
  x += group.y * x_stride;
  y += group.y * rows + first;
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (uint k = lane; k < width; k += LANES) {
    const float value = x[k];
    s0 = fma(float(a0[k]), value, s0);
    s1 = fma(float(a1[k]), value, s1);
    s2 = fma(float(a2[k]), value, s2);
    s3 = fma(float(a3[k]), value, s3);
  }
  s0 = simd_sum(s0);
  s1 = simd_sum(s1);
  s2 = simd_sum(s2);
  s3 = simd_sum(s3);
  if (lane < ROWS && first + lane < rows) {
    y[lane] = T(alpha * (lane == 0 ? s0 : lane == 1 ? s1 : lane == 2 ? s2 : s3));
  }
}

constant bool transpose_a [[function_constant(0)]];
constant bool transpose_b [[function_constant(1)]];

// out = alpha op(a) op(b) of matrices of at most N rows and columns, one to a thread.
template <typename T, uint N>
[[kernel]] void matmul_lanes(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant long& count [[buffer(3)]],
    constant long& rows [[buffer(4)]],
    constant long& columns [[buffer(5)]],
    constant long& depth [[buffer(6)]],
    constant float& alpha [[buffer(7)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float tile[LANE_TILE];
  float left[N * N], right[N * N], sums[N * N];
  const uint m = rows, n = columns, steps = depth;
  const long first = long(group) * LANES;
  load_lanes(a, left, tile, transpose_a ? steps : m, transpose_a ? m : steps, N, first, count, lane);
  load_lanes(b, right, tile, transpose_b ? n : steps, transpose_b ? steps : n, N, first, count, lane);
  for (uint i = 0; i < m; i++) {
    for (uint j = 0; j < n; j++) {
      float sum = 0;
      for (uint k = 0; k < steps; k++) {
        sum = fma(left[transpose_a ? k * N + i : i * N + k], right[transpose_b ? j * N + k : k * N + j], sum);
      }
      sums[i * N + j] = alpha * sum;
    }
  }
  store_lanes(sums, out, tile, m, n, N, first, count, lane);
}

// What stands between the products of polar and newton_schulz, and of orthogonalize and complete_basis.
#include "linalg/compact_wy.h"
#include "linalg/householder.h"

// Each matrix over its Frobenius norm plus `eps`; a matrix of zeros stays so. One threadgroup a matrix.
template <typename T>
[[kernel]] void unit_norm(
    device const T* a [[buffer(0)]],
    device T* out [[buffer(1)]],
    constant long& size [[buffer(2)]],
    constant float& eps [[buffer(3)]],
    uint matrix [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[SIMDGROUPS * LANES];
  const Team team = {partial, lane, simd_group_id, simd_groups};
  const uint threads = simd_groups * LANES, count = size;
  device const T* from = a + matrix * size;
  float most = 0;
  for (uint i = lid; i < count; i += threads) {
    most = max(most, fabs(float(from[i])));
  }
  const float scale = column_scale(simd_max(team.finish(most, true)));
  float squares = 0;
  for (uint i = lid; i < count; i += threads) {
    const float value = from[i] * scale;
    squares += value * value;
  }
  const float norm = sqrt(simd_sum(team.finish(squares, false))) + eps * scale;
  for (uint i = lid; i < count; i += threads) {
    out[matrix * size + i] = norm == 0 ? float(from[i]) : from[i] * scale / norm;
  }
}

// one * x + two * y, and `three` more on the diagonal. A threadgroup has a row.
template <typename T>
[[kernel]] void mixed(
    device const T* x [[buffer(0)]],
    device const T* y [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant long& row_count [[buffer(3)]],
    constant long& column_count [[buffer(4)]],
    constant float& one [[buffer(5)]],
    constant float& two [[buffer(6)]],
    constant float& three [[buffer(7)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint2 group_size [[threads_per_threadgroup]]) {
  const uint threads = group_size.x;
  const uint columns = column_count;
  const long place = (group.y * row_count + group.x) * columns;
  for (uint j = lid; j < columns; j += threads) {
    out[place + j] = one * x[place + j] + two * y[place + j] + (j == group.x ? three : 0.0f);
  }
}

// (x + x^T) / 2. A threadgroup has a row.
template <typename T>
[[kernel]] void symmetric_part(
    device const T* x [[buffer(0)]],
    device T* out [[buffer(1)]],
    constant long& size [[buffer(2)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint2 group_size [[threads_per_threadgroup]]) {
  const uint threads = group_size.x;
  const uint n = size, row = group.x;
  device const T* from = x + group.y * size * size;
  device T* to = out + (group.y * size + row) * n;
  for (uint j = lid; j < n; j += threads) {
    const uint low = min(row, j), high = max(row, j);  // the same sum for both, so that both are rounded alike
    to[j] = 0.5f * from[low * n + high] + 0.5f * from[high * n + low];
  }
}

// Q and R with the signs that make R's diagonal positive. A threadgroup has a row of Q, or of R after those.
template <typename T>
[[kernel]] void positive_diagonal(
    device const T* q [[buffer(0)]],
    device const T* r [[buffer(1)]],
    device T* q_out [[buffer(2)]],
    device T* r_out [[buffer(3)]],
    constant long& row_count [[buffer(4)]],
    constant long& column_count [[buffer(5)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint2 group_size [[threads_per_threadgroup]]) {
  const uint threads = group_size.x;
  const uint rows = row_count, n = column_count, row = group.x;
  device const T* factor = r + long(group.y) * n * n;
  if (row < rows) {
    const long place = (group.y * row_count + row) * n;
    for (uint j = lid; j < n; j += threads) {
      q_out[place + j] = factor[j * n + j] < 0 ? -q[place + j] : q[place + j];
    }
    return;
  }
  const uint i = row - rows;
  for (uint j = lid; j < n; j += threads) {
    const float value = factor[i * n + j];
    r_out[long(group.y) * n * n + i * n + j] = factor[i * n + i] < 0 ? -value : value;
  }
}

// The columns of `q`, and after them those that `whole` has there. A threadgroup has a row.
template <typename T>
[[kernel]] void completed(
    device const T* q [[buffer(0)]],
    device const T* whole [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant long& row_count [[buffer(3)]],
    constant long& column_count [[buffer(4)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint2 group_size [[threads_per_threadgroup]]) {
  const uint threads = group_size.x;
  const uint rows = row_count, columns = column_count;
  const long row = group.y * row_count + group.x;
  for (uint j = lid; j < rows; j += threads) {
    out[row * rows + j] = j < columns ? q[row * columns + min(j, columns - 1)] : whole[row * rows + j];
  }
}

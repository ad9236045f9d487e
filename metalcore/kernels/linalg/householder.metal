// What is done with reflectors that somebody has: v below the diagonal of a matrix, as LAPACK's geqrf leaves them, and
// tau. Such reflectors need not be orthogonal.
#include "linalg/columns.h"

// Q = the first columns of H_0 ... H_k-1, one matrix of rows, columns <= N a thread.
template <typename T, uint N>
[[kernel]] void householder_lanes(
    device const T* a [[buffer(0)]],
    device const T* tau [[buffer(1)]],
    device T* q [[buffer(2)]],
    constant long& count [[buffer(3)]],
    constant long& row_count [[buffer(4)]],
    constant long& column_count [[buffer(5)]],
    constant long& reflectors [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;
  threadgroup float tile[LANE_TILE];
  float m[N * PITCH], taus[N];
  const uint rows = row_count, columns = column_count, k = reflectors;
  const long first = long(group) * LANES;
  load_columns(a, m, tile, rows, columns, PITCH, first, count, lane);
  load_columns(tau, taus, tile, k, 1, N, first, count, lane);
  form_q(m, taus, PITCH, rows, k, columns);
  store_columns(m, q, tile, rows, columns, PITCH, 1.0f, false, first, count, lane);
}

// tau of each column of v: 2 / (v^T v), or 0 where v is only its 1. A thread has a column.
template <typename T>
[[kernel]] void householder_taus(
    device const T* a [[buffer(0)]],
    device T* tau [[buffer(1)]],
    constant long& row_count [[buffer(2)]],
    constant long& column_count [[buffer(3)]],
    constant long& reflectors [[buffer(4)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint rows = row_count, columns = column_count, begin = group.x * LANES, j = begin + lane;
  if (j < uint(reflectors)) {
    device const T* from = a + group.y * row_count * columns;
    float squares = 0;
    for (uint i = begin + 1; i < rows; i++) {
      const float value = i > j ? float(from[i * columns + j]) : 0.0f;
      squares += value * value;
    }
    tau[group.y * reflectors + j] = squares == 0 ? 0.0f : 2 / (1 + squares);
  }
}

template <typename T>
[[kernel]] void householder_copy(
    device const T* a [[buffer(0)]],
    device T* out [[buffer(1)]],
    constant long& size [[buffer(2)]],
    uint index [[thread_position_in_grid]]) {
  if (long(index) < size) {
    out[index] = a[index];
  }
}

// The first `left_columns` columns from `left`, the others from `right`, both with as many columns as they give: a
// threadgroup has a row.
template <typename T>
[[kernel]] void householder_join(
    device const T* left [[buffer(0)]],
    device const T* right [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant long& left_columns [[buffer(3)]],
    constant long& right_columns [[buffer(4)]],
    uint row [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint before = left_columns, after = right_columns;
  device T* to = out + long(row) * (before + after);
  for (uint j = lane; j < before; j += LANES) {
    to[j] = left[long(row) * before + j];
  }
  for (uint j = lane; j < after; j += LANES) {
    to[before + j] = right[long(row) * after + j];
  }
}

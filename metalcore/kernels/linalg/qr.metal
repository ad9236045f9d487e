// A = Q R by Householder reflectors, with R's signs as LAPACK's: no sign is turned.
#include "linalg/columns.h"

// One thread a matrix of rows, columns <= N. `q` is Q with `q_columns` columns, or where `is_packed` what LAPACK's geqrf
// returns: R above the diagonal, v below it. `r` has `r_rows` rows, or none.
template <typename T, uint N>
[[kernel]] void qr_lanes(
    device const T* a [[buffer(0)]],
    device T* q [[buffer(1)]],
    device T* r [[buffer(2)]],
    device T* tau [[buffer(3)]],
    constant long& count [[buffer(4)]],
    constant long& row_count [[buffer(5)]],
    constant long& column_count [[buffer(6)]],
    constant long& q_columns [[buffer(7)]],
    constant long& r_rows [[buffer(8)]],
    constant long& is_packed [[buffer(9)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;  // columns of a power of two would share few lines of the cache
  threadgroup float tile[LANE_TILE];
  float m[N * PITCH];
  float taus[N];
  const uint rows = row_count, columns = column_count, least = min(rows, columns);
  const long first = long(group) * LANES;
  const float scale = matrix_scale(load_columns(a, m, tile, rows, columns, PITCH, first, count, lane));
  if (simd_any(scale != 1)) {
    for (uint j = 0; j < columns; j++) {
      for (uint i = 0; i < rows; i++) {
        m[j * PITCH + i] *= scale;
      }
    }
  }
  factorise(m, taus, PITCH, rows, columns);
  const float back = 1 / scale;
  if (is_packed != 0) {
    for (uint j = 0; j < columns; j++) {
      for (uint i = 0; i <= j && i < rows; i++) {
        m[j * PITCH + i] *= back;
      }
    }
    store_columns(m, q, tile, rows, columns, PITCH, 1.0f, false, first, count, lane);
    store_columns(taus, tau, tile, least, 1, N, 1.0f, false, first, count, lane);
    return;
  }
  if (r_rows != 0) {
    store_columns(m, r, tile, r_rows, columns, PITCH, back, true, first, count, lane);
  }
  if (q_columns == 0) {
    return;
  }
  form_q(m, taus, PITCH, rows, least, q_columns);
  store_columns(m, q, tile, rows, q_columns, PITCH, 1.0f, false, first, count, lane);
}

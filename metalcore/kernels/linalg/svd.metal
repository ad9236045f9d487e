// M = sum over k of values[k] left[k] right[k]^T, the values in descending order: singular value decomposition of M, of
// `length` x `columns` numbers with length >= columns, whose columns are the rows of `a` in memory.
//   1. M = Q R with pivots in rows and columns;
//   2. one-sided Jacobi on the columns of R^T:  R^T J = W diag(values), so R = J diag(values) W^T;
//   3. left = Q J, right = W.
// (Drmac and Veselic, SIAM J. Matrix Anal. Appl. 29, 2007.) J and Q are orthogonal whatever the rank. A column of W for
// the value 0 is found apart. Beyond `columns`, rows of `left` complete the basis.
#include "linalg/svd_lanes.h"

constant bool has_vectors [[function_constant(0)]];

// One thread a matrix of columns <= length <= N.
template <typename T, uint N>
[[kernel]] void svd_lanes(
    device const T* a [[buffer(0)]],
    device T* left [[buffer(1)]],
    device T* values [[buffer(2)]],
    device T* right [[buffer(3)]],
    device int* info [[buffer(4)]],
    constant long& count [[buffer(5)]],
    constant long& columns [[buffer(6)]],
    constant long& length [[buffer(7)]],
    constant long& lefts [[buffer(8)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;  // columns of a power of two would share few lines of the cache
  threadgroup float tile[LANE_TILE];
  float x[N * PITCH], r[N * PITCH], turns[N * PITCH];
  float scales[N], r_scales[N], factors[N], sizes[N];
  uint order[N], places[N];
  const uint n = columns, m = length;
  const long first = long(group) * LANES, matrix = first + lane;
  const bool is_there = matrix < count;
  load_lanes(a, x, tile, n, m, PITCH, first, count, lane);
  bool is_finite;
  const float whole = scale_lanes<T, PITCH>(a + min(matrix, count - 1) * n * m, x, scales, sizes, order, n, m, is_finite);
  factor_lanes<PITCH>(x, scales, r, r_scales, factors, sizes, turns, places, n, m);
  if (has_vectors) {
    for (uint k = 0; k < n; k++) {
      for (uint i = 0; i < n; i++) {
        turns[k * PITCH + i] = i == k ? 1.0f : 0.0f;
      }
    }
  }
  const int failed = orthogonalize_lanes<PITCH>(r, r_scales, scales, sizes, turns, has_vectors, n);
  for (uint k = 0; k < n; k++) {
    float square = 0;
    for (uint i = 0; i < n; i++) {
      square += r[k * PITCH + i] * r[k * PITCH + i];
    }
    const float norm = sqrt(square);
    if (has_vectors) {
      for (uint i = 0; i < n; i++) {
        r[k * PITCH + i] = norm > 0 ? r[k * PITCH + i] / norm : 0.0f;
      }
    }
    sizes[k] = r_scales[k] * norm;
  }
  if (is_there) {
    info[matrix] = is_finite ? failed : SVD_NOT_FINITE;
  }
  for (uint k = 0; k < n; k++) {
    const float size = sizes[k];
    uint place = 0;
    for (uint b = 0; b < n; b++) {
      place += sizes[b] > size || (sizes[b] == size && b < k) ? 1 : 0;
    }
    if (is_there) {
      values[matrix * n + place] = T(size * whole);
    }
    if (has_vectors) {
      const bool is_zero = !(size > 0);
      if (simd_any(is_zero)) {
        complete_lanes<PITCH>(r, scales, k, is_zero, n);
      }
      float square = 0;
      for (uint i = 0; i < n; i++) {
        square += turns[k * PITCH + i] * turns[k * PITCH + i];
      }
      const float inverse = rsqrt(square);  // 1 but for what rounding did
      for (uint i = 0; i < m; i++) {
        scales[i] = i < n ? turns[k * PITCH + i] * inverse : 0.0f;
      }
      reflect_lanes<PITCH>(scales, x, factors, n, m);
      if (is_there) {
        scatter_lanes(r + k * PITCH, right + (matrix * n + place) * n, places, n);
        scatter_lanes(scales, left + (matrix * lefts + place) * m, order, m);
      }
    }
  }
  if (has_vectors) {
    for (uint k = n; k < uint(lefts); k++) {
      for (uint i = 0; i < m; i++) {
        scales[i] = i == k ? 1.0f : 0.0f;
      }
      reflect_lanes<PITCH>(scales, x, factors, n, m);
      if (is_there) {
        scatter_lanes(scales, left + (matrix * lefts + k) * m, order, m);
      }
    }
  }
}

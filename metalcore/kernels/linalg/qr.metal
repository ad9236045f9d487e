// A = Q R by Householder reflectors, with R's signs as LAPACK's: no sign is turned.
#include "linalg/householder.h"
#include "linalg/lanes.h"

// Element (i, j) of the thread's matrix goes to `to[j * pitch + i]`: columns lie along memory. The largest magnitude is
// returned.
template <typename T>
inline float load_columns(device const T* from, thread float* to, threadgroup float* tile, uint rows, uint columns,
                          uint pitch, long first, long count, uint lane) {
  const uint size = rows * columns;
  uint row = 0, place = 0;
  float most = 0;
  for (uint begin = 0; begin < size; begin += LANES) {
    const uint filled = min(LANES, size - begin);
    for (uint m = 0; m < LANES; m++) {
      if (lane < filled) {
        tile[m * LANE_PITCH + lane] = from[min(first + m, count - 1) * size + begin + lane];
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint e = 0; e < filled; e++) {
      const float value = tile[lane * LANE_PITCH + e];
      most = max(most, fabs(value));
      to[place + row] = value;
      place += pitch;
      if (place == columns * pitch) {
        place = 0;
        row++;
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  return most;
}

// The reverse, times `scale`. Where `is_upper`, what is below the diagonal is stored as zero.
template <typename T>
inline void store_columns(thread const float* from, device T* to, threadgroup float* tile, uint rows, uint columns,
                          uint pitch, float scale, bool is_upper, long first, long count, uint lane) {
  const uint size = rows * columns;
  uint row = 0, column = 0;
  for (uint begin = 0; begin < size; begin += LANES) {
    const uint filled = min(LANES, size - begin);
    for (uint e = 0; e < filled; e++) {
      tile[lane * LANE_PITCH + e] = is_upper && row > column ? 0.0f : from[column * pitch + row] * scale;
      column++;
      if (column == columns) {
        column = 0;
        row++;
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint m = 0; m < LANES && first + m < count; m++) {
      if (lane < filled) {
        to[(first + m) * size + begin + lane] = T(tile[m * LANE_PITCH + lane]);
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// `target` := H `target` for the elements first to last, where v is in `v` but for its 1 at `first`.
inline void reflect_one(thread const float* v, float tau, thread float* target, uint first, uint last) {
  float sum = target[first];
  for (uint i = first + 1; i < last; i++) {
    sum += v[i] * target[i];
  }
  sum *= tau;
  target[first] -= sum;
  for (uint i = first + 1; i < last; i++) {
    target[i] -= v[i] * sum;
  }
}

// Two columns at once, which share the loads of v.
inline void reflect_two(thread const float* v, float tau, thread float* one, thread float* two, uint first, uint last) {
  float sum = one[first], other = two[first];
  for (uint i = first + 1; i < last; i++) {
    sum += v[i] * one[i];
    other += v[i] * two[i];
  }
  sum *= tau;
  other *= tau;
  one[first] -= sum;
  two[first] -= other;
  for (uint i = first + 1; i < last; i++) {
    one[i] -= v[i] * sum;
    two[i] -= v[i] * other;
  }
}

inline void reflect(thread const float* v, float tau, thread float* a, uint pitch, uint begin, uint end, uint first,
                    uint last) {
  uint l = begin;
  for (; l + 1 < end; l += 2) {
    reflect_two(v, tau, a + l * pitch, a + (l + 1) * pitch, first, last);
  }
  if (l < end) {
    reflect_one(v, tau, a + l * pitch, first, last);
  }
}

// R above the diagonal, v below it, and `tau`.
inline void factorise(thread float* a, thread float* tau, uint pitch, uint rows, uint columns) {
  const uint least = min(rows, columns);
  for (uint j = 0; j < least; j++) {
    thread float* x = a + j * pitch;
    float most = 0;
    for (uint i = j; i < rows; i++) {
      most = max(most, fabs(x[i]));
    }
    const float scale = column_scale(most);
    float squares = 0;
    for (uint i = j + 1; i < rows; i++) {
      const float value = x[i] * scale;
      squares += value * value;
    }
    const Reflector h = reflector(x[j] * scale, squares);
    x[j] = h.beta / scale;
    tau[j] = h.tau;
    for (uint i = j + 1; i < rows; i++) {
      x[i] = x[i] * scale * h.inverse;
    }
    reflect(x, h.tau, a, pitch, j + 1, columns, j, rows);
  }
}

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
      for (uint i = 0; i <= min(j, rows - 1); i++) {
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
  // Q = H_0 ... H_k-1 (I), from the last reflector to the first: what is zero stays out of the sums.
  const uint width = q_columns;
  for (uint j = least; j < width; j++) {
    for (uint i = 0; i < rows; i++) {
      m[j * PITCH + i] = i == j ? 1.0f : 0.0f;
    }
  }
  for (uint k = 0; k < least; k++) {
    const uint j = least - 1 - k;
    thread float* v = m + j * PITCH;
    const float t = taus[j];
    reflect(v, t, m, PITCH, j + 1, width, j, rows);
    for (uint i = 0; i < j; i++) {
      v[i] = 0;
    }
    v[j] = 1 - t;
    for (uint i = j + 1; i < rows; i++) {
      v[i] *= -t;
    }
  }
  store_columns(m, q, tile, rows, width, PITCH, 1.0f, false, first, count, lane);
}

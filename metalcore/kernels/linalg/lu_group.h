// A threadgroup has a matrix, or 32 columns of one: lanes run along rows, so that the pivot row is the same in all lanes.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant constexpr uint BLOCK = 32;  // columns that a simdgroup has at once, one a lane

// Where a thread is in its threadgroup.
struct Place {
  uint thread_index;
  uint threads;
  uint lane;
  uint simdgroup;
  uint simdgroups;
};

// Everything that threads wrote is seen by the others.
inline void share() { threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup); }

// The largest element that a simdgroup saw in a column, and its row: the first one of several. A NaN is not larger, but
// one in the top row stays there, as in LAPACK.
struct Largest {
  float size;
  uint row;

  void see(float x, uint i, uint top) {
    const float y = i == top && x != x ? INFINITY : abs(x);
    const bool is_larger = y > size;
    row = is_larger ? i : row;
    size = is_larger ? y : size;
  }
};

// The row of the largest element that any simdgroup saw. Every thread gets it.
inline uint pivot_row(Largest seen, threadgroup float* sizes, threadgroup uint* rows, Place at) {
  if (at.simdgroups == 1) {
    return seen.row;
  }
  if (at.lane == 0) {
    sizes[at.simdgroup] = seen.size;
    rows[at.simdgroup] = seen.row;
  }
  share();
  for (uint s = 0; s < at.simdgroups; s++) {
    const bool is_better = sizes[s] > seen.size || (sizes[s] == seen.size && rows[s] < seen.row);
    seen.row = is_better ? rows[s] : seen.row;
    seen.size = is_better ? sizes[s] : seen.size;
  }
  share();  // before they are written again
  return seen.row;
}

// L and U of a panel of `width` <= BLOCK columns, in place; its rows have BLOCK elements. `begin` is added to the pivots,
// which count from 1. While a column is eliminated, the largest element of the next one is looked for.
template <typename T>
inline void factor_panel(device T* a, uint rows, uint width, device int* pivots, uint begin, bool exchanges,
                         threadgroup float* sizes, threadgroup uint* places, Place at) {
  const uint steps = min(rows, width), lane = at.lane;
  Largest seen = {-1, 0};
  for (uint i = at.simdgroup; i < rows; i += at.simdgroups) {
    seen.see(a[i * BLOCK], i, 0);
  }
  share();
  for (uint k = 0; k < steps; k++) {
    const uint place = exchanges ? pivot_row(seen, sizes, places, at) : k;
    device T* top = a + k * BLOCK;
    if (at.simdgroup == 0) {
      if (lane == 0) {
        pivots[k] = begin + place + 1;
      }
      if (place != k) {
        const T x = top[lane];
        top[lane] = a[place * BLOCK + lane];
        a[place * BLOCK + lane] = x;
      }
    }
    share();
    const uint next = min(k + 1, BLOCK - 1);
    const float pivot = top[k], divisor = pivot == 0 ? 1.0f : pivot, after = top[next];
    const float u = lane > k ? top[lane] : 0.0f;
    seen = {-1, k + 1};
    for (uint i = k + 1 + at.simdgroup; i < rows; i += at.simdgroups) {
      device T* row = a + i * BLOCK;
      const float l = row[k] / divisor, x = fma(-l, u, row[lane]);
      seen.see(fma(-l, after, row[next]), i, k + 1);
      simdgroup_barrier(mem_flags::mem_device);  // every lane has read before one writes
      row[lane] = lane == k ? l : x;
    }
    share();
  }
}

// Rows k and pivots[k] - 1 of one column are exchanged for k = begin, begin + 1, ...: as L's rows were; or back. Pivots
// come from the user too: none beyond the rows is followed.
template <typename T>
inline void exchange_rows(device T* column, long pitch, device const int* pivots, uint begin, uint end, uint rows,
                          bool is_reversed, bool is_inside) {
  for (uint t = begin; t < end; t++) {
    const uint k = is_reversed ? end - 1 - (t - begin) : t;
    const uint other = uint(pivots[k]) - 1;
    if (other != k && other < rows && is_inside) {
      const T x = column[k * pitch];
      column[k * pitch] = column[other * pitch];
      column[other * pitch] = x;
    }
  }
}

// An entry of a triangular factor: its matrix, or the transposed one.
template <typename T, bool TRANSPOSED>
inline float entry(device const T* a, long pitch, uint i, uint j) {
  return TRANSPOSED ? a[j * pitch + i] : a[i * pitch + j];
}

// The rows [begin, end) of X minus a[rows] (columns `from` to `from` + `steps` of `a`) times the rows in the tile.
template <typename T, bool TRANSPOSED>
inline void subtract_product(device T* column, long pitch, device const T* a, long a_pitch, uint begin, uint end,
                             uint from, uint steps, threadgroup const float* tile, bool is_inside, Place at) {
  const uint lane = at.lane;
  for (uint i = begin + 2 * at.simdgroup; i < end; i += 2 * at.simdgroups) {
    const uint next = min(i + 1, end - 1);
    float x = is_inside ? column[i * pitch] : T(0), y = is_inside ? column[next * pitch] : T(0);
    for (uint t = 0; t < steps; t++) {
      const float u = tile[t * BLOCK + lane];
      x = fma(-entry<T, TRANSPOSED>(a, a_pitch, i, from + t), u, x);
      y = fma(-entry<T, TRANSPOSED>(a, a_pitch, next, from + t), u, y);
    }
    if (is_inside) {
      column[i * pitch] = x;
      column[next * pitch] = y;
    }
  }
}

// The rows [begin, begin + steps) of X, of which a thread has a column, become those of the solution for the triangle at
// the same place of `a`; they are in the tile too. Only one simdgroup does this.
template <typename T, bool UPPER, bool UNIT, bool TRANSPOSED>
inline void solve_block(device T* column, long pitch, device const T* a, long a_pitch, uint begin, uint steps,
                        uint a_begin, threadgroup float* tile, bool is_inside, uint lane) {
  for (uint step = 0; step < steps; step++) {
    const uint t = UPPER ? steps - 1 - step : step;
    float x = is_inside ? column[(begin + t) * pitch] : T(0);
    for (uint s = UPPER ? t + 1 : 0; s < (UPPER ? steps : t); s++) {
      x = fma(-entry<T, TRANSPOSED>(a, a_pitch, a_begin + t, begin + s), tile[s * BLOCK + lane], x);
    }
    x = UNIT ? x : x / entry<T, TRANSPOSED>(a, a_pitch, a_begin + t, begin + t);
    tile[t * BLOCK + lane] = x;
    if (is_inside) {
      column[(begin + t) * pitch] = x;
    }
  }
}

// A matrix a thread, in an array of the thread's own with columns along memory: element (i, j) is `a[j * pitch + i]`.
#pragma once
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

// The first `width` columns of Q = H_0 ... H_k-1 in place of R and v, from the last reflector to the first: what is zero
// stays out of the sums.
inline void form_q(thread float* a, thread const float* tau, uint pitch, uint rows, uint least, uint width) {
  for (uint j = least; j < width; j++) {
    for (uint i = 0; i < rows; i++) {
      a[j * pitch + i] = i == j ? 1.0f : 0.0f;
    }
  }
  for (uint k = 0; k < least; k++) {
    const uint j = least - 1 - k;
    thread float* v = a + j * pitch;
    const float t = tau[j];
    reflect(v, t, a, pitch, j + 1, width, j, rows);
    for (uint i = 0; i < j; i++) {
      v[i] = 0;
    }
    v[j] = 1 - t;
    for (uint i = j + 1; i < rows; i++) {
      v[i] *= -t;
    }
  }
}

// Gaussian elimination with partial pivoting: P^T A = L U. Used by linalg/lu.metal and linalg/solve.metal.
#pragma once
#include "linalg/lanes.h"

// An unsigned number as wide as float, which the engine may read as double.
template <uint BYTES>
struct Bits {
  using type = uint;
};
template <>
struct Bits<8> {
  using type = ulong;
};
using float_bits = Bits<sizeof(float)>::type;

// One thread has a matrix of `rows` <= N and `columns`. The first `steps` columns are eliminated; further ones may be
// right-hand sides. The pivot row differs from lane to lane, so rows are exchanged by selects, in loops that are the same
// in all lanes. Where KEEPS, the multipliers of L are kept below the diagonal; else what is there has no meaning
// afterwards. pivots[k] is the row that was exchanged with row k: itself where rows are not to be exchanged. Returns the
// first step (from 1) whose pivot is 0, or 0.
template <uint N, uint PITCH, bool KEEPS>
inline int eliminate_lanes(thread float* a, thread float* pivots, uint rows, uint columns, uint steps,
                           bool exchanges) {
  float_bits masks[N];
  int failed = 0;
  for (uint k = 0; k < steps; k++) {
    thread float* top = a + k * PITCH;
    float largest = abs(top[k]), pivot = k;  // a float: compilers turn comparisons of integers into branches
    for (uint i = k + 1; i < (exchanges ? rows : 0); i++) {
      const float size = abs(a[i * PITCH + k]);
      const bool is_larger = size > largest;
      largest = is_larger ? size : largest;
      pivot = is_larger ? float(i) : pivot;
    }
    pivots[k] = pivot;
    failed = failed == 0 && largest == 0 ? int(k) + 1 : failed;
    const float leaving = top[k];
    float divisor = leaving;
    for (uint i = k + 1; i < rows; i++) {
      const float x = a[i * PITCH + k];
      divisor = pivot == float(i) ? x : divisor;
    }
    top[k] = divisor;
    divisor = largest == 0 ? 1.0f : divisor;  // the column is 0 then, or rows are not exchanged
    for (uint i = k + 1; i < rows; i++) {
      const float x = a[i * PITCH + k];
      const bool is_pivot = pivot == float(i);
      a[i * PITCH + k] = (is_pivot ? leaving : x) / divisor;
      masks[i] = is_pivot ? ~float_bits(0) : 0;
    }
    if (KEEPS) {
      for (uint j = 0; j < k; j++) {
        const float out = top[j];
        float in = out;
        for (uint i = k + 1; i < rows; i++) {
          // Bits, as a store of what may be the old value would become a store with a mask.
          const float x = a[i * PITCH + j];
          const float_bits old = as_type<float_bits>(x);
          in = pivot == float(i) ? x : in;
          a[i * PITCH + j] = as_type<float>(old ^ ((old ^ as_type<float_bits>(out)) & masks[i]));
        }
        top[j] = in;
      }
    }
    for (uint j = k + 1; j < columns; j++) {
      const float out = top[j];
      float in = out;
      for (uint i = k + 1; i < rows; i++) {
        const float x = a[i * PITCH + j];
        in = pivot == float(i) ? x : in;
      }
      top[j] = in;
      for (uint i = k + 1; i < rows; i++) {
        const float x = a[i * PITCH + j];
        a[i * PITCH + j] = fma(-a[i * PITCH + k], in, pivot == float(i) ? out : x);
      }
    }
  }
  return failed;
}

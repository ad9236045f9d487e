// Sums of many numbers to one: each rounding error is kept and added at the end (Knuth's two-sum).
// Under fast-math the error may be optimised to zero: what is left is the plain sum.
#pragma once
#include "group.h"

struct ExactSum {
  float value;
  float error;
};

inline ExactSum added(ExactSum a, float b) {
  const float sum = a.value + b;
  const float part = sum - a.value;
  return {sum, a.error + ((a.value - (sum - part)) + (b - part))};
}

inline ExactSum added_product(ExactSum a, float b, float c) {
  const float product = b * c;
  a = added(a, product);
  a.error += fma(b, c, -product);
  return a;
}

// An infinity leaves a NaN behind as its error.
inline float rounded(ExactSum a) { return isfinite(a.value) ? a.value + a.error : a.value; }

inline ExactSum simd_added(ExactSum mine) {
  for (ushort step = 16; step > 0; step /= 2) {
    const float value = simd_shuffle_xor(mine.value, step);
    const float error = simd_shuffle_xor(mine.error, step);
    mine = added(mine, value);
    mine.error += error;
  }
  return mine;
}

// `values` and `errors` hold 32 numbers each and may be used again after the call.
inline ExactSum group_total(ExactSum mine, threadgroup float* values, threadgroup float* errors, Lane at) {
  mine = simd_added(mine);
  if (at.groups > 1) {
    if (at.lane == 0) {
      values[at.group] = mine.value;
      errors[at.group] = mine.error;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    mine.value = at.lane < at.groups ? values[at.lane] : 0.0f;
    mine.error = at.lane < at.groups ? errors[at.lane] : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    mine = simd_added(mine);
  }
  return mine;
}

inline float group_added(ExactSum mine, threadgroup float* values, threadgroup float* errors, Lane at) {
  return rounded(group_total(mine, values, errors, at));
}

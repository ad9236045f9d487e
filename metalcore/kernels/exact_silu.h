// The slope of silu with the error of its value, 2^-29 and less of the largest slope: for sums of slopes that cancel.
// Under fast-math the error may be optimised to zero: what is left is the plain slope.
#pragma once
#include "exact_exp.h"

inline ExactSum product_of(ExactSum a, ExactSum b) {
  const float value = a.value * b.value;
  return {value, fma(a.value, b.value, -value) + fma(a.value, b.error, a.error * b.value)};
}

// s (1 + x (1 - s)) with s = 1 / (1 + e^-x)
inline ExactSum exact_silu_slope(ExactSum x) {
  const bool is_negative = x.value < 0.0f;
  const ExactSum e = exact_exp_minus({fabs(x.value), is_negative ? -x.error : x.error});
  const float below = 1.0f + e.value;
  const float below_error = (e.value - (below - 1.0f)) + e.error;
  const float inverse = 1.0f / below;
  const ExactSum large = {inverse, inverse * (fma(-inverse, below, 1.0f) - inverse * below_error)};  // of s and 1 - s
  const ExactSum small = product_of(e, large);
  const ExactSum bend = product_of(x, is_negative ? large : small);
  ExactSum factor = added({1.0f, 0.0f}, bend.value);
  factor.error += bend.error;
  return product_of(is_negative ? small : large, factor);
}

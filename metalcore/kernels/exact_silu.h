// The slope of silu with the error of its value, 2^-29 and less of the largest slope: for sums of slopes that cancel.
// Under fast-math the error may be optimised to zero: what is left is the plain slope.
#pragma once
#include "exact_sum.h"

inline ExactSum product_of(ExactSum a, ExactSum b) {
  const float value = a.value * b.value;
  return {value, fma(a.value, b.value, -value) + fma(a.value, b.error, a.error * b.value)};
}

// e^-x for x >= 0; 0 beyond 87
inline ExactSum exact_exp_minus(ExactSum x) {
#ifdef METALCORE_DOUBLE
  const float e = exp(-x.value);
  return {e, -e * x.error};
#else
  const float n = rint(max(-x.value, -87.0f) * 1.44269504f);
  const float r = fma(n, -0.693145752f, -x.value);  // exact: the factor has few digits
  const float rest = fma(n, -1.42860677e-6f, -x.error);
  float p = fma(r, 2.48015873e-5f, 1.98412698e-4f);  // e^r - 1 - r, by its series
  p = fma(r, p, 1.38888889e-3f);
  p = fma(r, p, 8.33333333e-3f);
  p = fma(r, p, 4.16666667e-2f);
  p = fma(r, p, 1.66666667e-1f);
  p = r * r * fma(r, p, 0.5f);
  const float near = 1.0f + r;
  const float tail = fma(rest, near + p, p) + (r - (near - 1.0f));
  const float value = near + tail;
  const float scale = x.value > 87.0f ? 0.0f : as_type<float>((int(n) + 127) << 23);
  return {value * scale, (tail - (value - near)) * scale};
#endif
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

// The exponential with what its rounding lost: an error of 2^-29 of it and less.
#pragma once
#include "exact_sum.h"

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

// Exponential and logarithm of sums of two floats: errors of 2^-29 and less.
#pragma once
#include "exact_exp.h"
#include "float_float.h"

// e^x for x up to 87
inline FloatFloat exp_of(FloatFloat x) {
  const bool is_far = x.high < -100.0f;
  const ExactSum e = exact_exp_minus({is_far ? 100.0f : -x.high, is_far ? 0.0f : -x.low});
  return {e.value, e.error};
}

// log(1 + e) for e in 0..1, by 2 atanh(s) with s = e / (2 + e): so it keeps its digits where e is small
inline FloatFloat log_one_plus(FloatFloat e) {
#ifdef METALCORE_DOUBLE
  const FloatFloat one_more = e + 1.0f;  // the logarithm is corrected by the exponential of what was found
  const float near = log(one_more.high);
  return one_more * exp_of({-near, 0.0f}) + -1.0f + near;
#else
  const FloatFloat s = e / (e + 2.0f), square = s * s;
  const float z = square.high;
  float p = fma(z, 0.052631579f, 0.058823529f);
  p = fma(z, p, 0.066666667f);
  p = fma(z, p, 0.076923077f);
  p = fma(z, p, 0.090909091f);
  p = fma(z, p, 0.11111111f);
  p = fma(z, p, 0.14285714f);
  p = fma(z, p, 0.2f);
  const FloatFloat sum = (s + (s * square) / 3.0f) + s.high * z * z * p;
  return {2.0f * sum.high, 2.0f * sum.low};
#endif
}

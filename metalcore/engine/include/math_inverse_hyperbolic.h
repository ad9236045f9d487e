// asinh, acosh and atanh by log1p_positive, which math_log.h has for floats and double_exp.h where float is read as double.
#pragma once

#include "math_core.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

// From here on x^2 adds nothing to 1 + x^2, and log(2 x) is the result; further up it would overflow.
#ifdef METALCORE_DOUBLE
constexpr float far_from_one = 0x1p60;
#else
constexpr float far_from_one = 0x1p30f;
#endif

// log1p(x + x^2 / (1 + sqrt(1 + x^2))); where x^2 would overflow, log(2 x).
__MC_MATH float asinh_p(float x) {
  float a = fabs_(x);
  bool big = a > far_from_one;
  float z = a * a;
  float f = a + z / (1.0f + sqrt_(1.0f + z));
  float y = log1p_positive(choose(big, a, f), choose(big, float(1), float(0)));
  y = choose(a < inf_(), y, a);
  return copysign_(y, x);
}
// log1p(t + sqrt(2 t + t^2)), t = x - 1 (exact below 2^24)
__MC_MATH float acosh_p(float x) {
  bool big = x > far_from_one;
  float t = x - 1.0f;
  float f = t + sqrt_(fma_(t, t, t + t));
  float y = log1p_positive(choose(big, x, f), choose(big, float(1), float(0)));
  y = choose(x < inf_(), y, x);
  return choose(x >= 1.0f, y, nan_());
}
// log1p(2 x / (1 - x)) / 2
__MC_MATH float atanh_p(float x) {
  float a = fabs_(x);
  float f = (a + a) / (1.0f - a);
  float y = 0.5f * log1p_positive(f, 0.0f);
  y = choose(a < 1.0f, y, choose(a == 1.0f, inf_(), nan_()));
  return copysign_(y, x);
}

}  // namespace __mc_math

#pragma float_control(pop)

// powr and pow by `power`, |x|^y, which math_pow.h has for floats and double_exp.h where float is read as double.
#pragma once

#include "math_core.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

__MC_MATH float powr_p(float x, float y) {
  float r = power(fabs_(x), y);
  return choose(x < 0.0f, nan_(), r);
}
__MC_MATH float pow_p(float x, float y) {
  float a = fabs_(x);
  float r = power(a, y);
  float half_y = 0.5f * y;
  bool whole = __builtin_floorf(y) == y;
  bool odd = whole & (__builtin_floorf(half_y) != half_y);
  r = choose((ibits(x) < 0) & odd, -r, r);
  r = choose((x < 0.0f) & (a < inf_()) & !whole, nan_(), r);
  r = choose((x == -1.0f) & (fabs_(y) == inf_()), float(1), r);
  return choose((x == 1.0f) | (y == 0.0f), float(1), r);
}
#ifdef METALCORE_DOUBLE  // fast:: is the same
__MC_MATH float powr_f(float x, float y) { return powr_p(x, y); }
__MC_MATH float pow_f(float x, float y) { return pow_p(x, y); }
#endif

}  // namespace __mc_math

#pragma float_control(pop)

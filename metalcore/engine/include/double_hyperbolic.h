// Hyperbolic functions and their inverses where float is read as double.
#pragma once

#include "double_exp.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

// e^x / 2 for x >= 0, by one factor less: it overflows no sooner than cosh does.
__MC_MATH double cosh_p(double x) {
  double e = exp_of(fabs_(x), 0.0, -1.0);
  return e + 0.25 / e;
}
__MC_MATH double sinh_p(double x) {
  double a = fabs_(x);
  double m = expm1_positive(at_most(a, 1.0));
  double e = exp_of(a, 0.0, -1.0);
  return copysign_(choose(a < 1.0, 0.5 * (m + m / (m + 1.0)), e - 0.25 / e), x);
}
// E / (E + 2) with E = e^2x - 1
__MC_MATH double tanh_p(double x) {
  double a = at_most(fabs_(x), 25.0);
  double e = expm1_positive(a + a);
  return copysign_(choose(a < 25.0, e / (e + 2.0), choose(is_nan(a), a, 1.0)), x);
}
__MC_MATH double tanh_f(double x) { return tanh_p(x); }

// log1p(x + x^2 / (1 + sqrt(1 + x^2))); where x^2 would overflow, log(2 x).
__MC_MATH double asinh_p(double x) {
  double a = fabs_(x);
  bool big = a > 0x1p60;
  double z = a * a;
  double f = a + z / (1.0 + sqrt_(1.0 + z));
  double y = log1p_positive(choose(big, a, f), choose(big, 1.0, 0.0));
  y = choose(a < inf_(), y, a);
  return copysign_(y, x);
}
// log1p(t + sqrt(2 t + t^2)), t = x - 1
__MC_MATH double acosh_p(double x) {
  bool big = x > 0x1p60;
  double t = x - 1.0;
  double f = t + sqrt_(fma_(t, t, t + t));
  double y = log1p_positive(choose(big, x, f), choose(big, 1.0, 0.0));
  y = choose(x < inf_(), y, x);
  return choose(x >= 1.0, y, nan_());
}
// log1p(2 x / (1 - x)) / 2
__MC_MATH double atanh_p(double x) {
  double a = fabs_(x);
  double f = (a + a) / (1.0 - a);
  double y = 0.5 * log1p_positive(f, 0.0);
  y = choose(a < 1.0, y, choose(a == 1.0, inf_(), nan_()));
  return copysign_(y, x);
}

}  // namespace __mc_math

#pragma float_control(pop)

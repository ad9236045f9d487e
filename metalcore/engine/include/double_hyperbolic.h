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

}  // namespace __mc_math

#pragma float_control(pop)

#include "math_inverse_hyperbolic.h"

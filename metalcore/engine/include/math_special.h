// Roots, quotients, fused and ordered operations, remainders.
#pragma once

#include "math_rounding.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

__MC_MATH float sqrt_p(float x) { return __builtin_elementwise_sqrt(x); }
__MC_MATH float rsqrt_p(float x) { return 1.0f / __builtin_elementwise_sqrt(x); }
__MC_MATH float divide_p(float x, float y) { return x / y; }
__MC_MATH float fma_p(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

// Where one argument is NaN, a signalling one too, the other one is the result.
__MC_MATH float fmax_p(float x, float y) { return __builtin_fmaximum_numf(x, y); }
__MC_MATH float fmin_p(float x, float y) { return __builtin_fminimum_numf(x, y); }
__MC_MATH float fmax3_p(float x, float y, float z) { return fmax_p(fmax_p(x, y), z); }
__MC_MATH float fmin3_p(float x, float y, float z) { return fmin_p(fmin_p(x, y), z); }
__MC_MATH float fmedian3_p(float x, float y, float z) { return fmax_p(fmin_p(x, y), fmin_p(fmax_p(x, y), z)); }
__MC_MATH float fdim_p(float x, float y) {
  float d = x - y;
  return choose(x <= y, float(0), d);
}

// fmod, exact. While the quotient fits the mantissa one division and one fma do it. Beyond, y is scaled up to within 2^22
// of x (2^51 for double) and taken off, again and again: rare, so it stands behind a branch.
__MC_MATH float fmod_step(float a, float b) {
  float r = fma_(-__builtin_truncf(a / b), b, a);
  return choose(r < 0.0f, r + b, r);
}
__MC_MATH float fmod_p(float x, float y) {
  constexpr int reach = mantissa_bits - 1;
  constexpr float far = word(1) << reach;
  float a = fabs_(x);
  float b = fabs_(y);
  if (__builtin_expect((a >= b * far) & (a < inf_()) & (b > 0.0f), 0)) {
    int eb = split_exponent(b).e;
    while (a >= b * far) {
      a = fmod_step(a, ldexp_p(b, split_exponent(a).e - eb - reach));
    }
  }
  float r = choose(a < b, a, fmod_step(a, b));
  r = choose(is_nan(x) | is_nan(y), x + y, r);
  r = choose(fabs_(x) < inf_(), r, nan_());
  return copysign_(choose(b == 0.0f, nan_(), r), x);
}

}  // namespace __mc_math

#pragma float_control(pop)

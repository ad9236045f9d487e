// Hyperbolic functions and their inverses.
#pragma once

#include "math_exp.h"
#include "math_log.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

// e^x / 2 for x >= 0
__MC_MATH float half_exp(float x) {
  x = at_most(x, 90.0f);
  float shifted = fma_(x, 0x1.715476p+0f, exp_magic);
  float k = shifted - exp_magic;
  float r = fma_(k, -0x1.62e43p-1f, x);
  r = fma_(k, 0x1.05c61p-29f, r);
  return scale_two_step(0.5f * exp_poly(r), shifted);
}
__MC_MATH float cosh_p(float x) {
  float e = half_exp(fabs_(x));
  return e + 0.25f / e;
}
// Below 1 an odd polynomial (relative error 2^-31), above (e^x - e^-x) / 2.
__MC_MATH float sinh_p(float x) {
  float a = fabs_(x);
  float z = a * a;
  float p = horner(z, 0x1.756cb4p-19f, 0x1.a022bap-13f, 0x1.1110ep-7f, 0x1.555556p-3f);
  float small = fma_(p * z, a, a);
  float e = half_exp(a);
  return copysign_(choose(a < 1.0f, small, e - 0.25f / e), x);
}
// Below 0.6 an odd polynomial (relative error 2^-27.7), above 1 - 2 / (e^2x + 1).
__MC_MATH float tanh_p(float x) {
  float a = fabs_(x);
  float z = a * a;
  float p = horner(z, -0x1.750ce4p-8f, 0x1.51f8cep-6f, -0x1.b835a4p-5f, 0x1.1106f6p-3f, -0x1.555532p-2f);
  float small = fma_(p * z, a, a);
  float t = at_most(a, 10.0f);
  float shifted = fma_(t, 2.0f * 0x1.715476p+0f, fast_exp_magic);
  float k = shifted - fast_exp_magic;
  float r = fma_(k, -0x1.62e43p-1f, t + t);
  r = fma_(k, 0x1.05c61p-29f, r);
  float e = exp_poly(r) * from_bits(bits(shifted) << 23);  // e^2x / 2
  float large = 1.0f - 1.0f / (e + 0.5f);
  return copysign_(choose(a < 0.6f, small, large), x);
}

// fast: E / (E + 2) with E = e^2x - 1 = 2^k (e^2r - 1) + (2^k - 1); about 2.5 ulp
__MC_MATH float tanh_f(float x) {
  constexpr float magic = round_magic + 127.0f;
  float a = at_most(fabs_(x), 9.5f);
  float shifted = fma_(a, 2.0f * 0x1.715476p+0f, magic);
  float k = shifted - magic;
  float r = fma_(k, -0x1.62e43p-2f, a);
  r = fma_(k, 0x1.05c61p-30f, r);
  float p = horner(r, 0x1.6b9a24p-4f, 0x1.12253ep-2f, 0x1.5556f4p-1f, 0x1.5554b4p+0f, 0x1.fffffep+0f);
  p = fma_(p * r, r, r + r);
  float scale = from_bits(bits(shifted) << 23);
  float e = fma_(scale, p, scale - 1.0f);
  return copysign_(e / (e + 2.0f), x);
}

}  // namespace __mc_math

#pragma float_control(pop)

#include "math_inverse_hyperbolic.h"

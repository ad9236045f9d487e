// exp, exp2, exp10: x = k ln 2 + r with |r| <= ln 2 / 2, a polynomial for e^r, and 2^k put in as two factors, so that
// overflow, denormal results and their rounding come from the last multiplication. No special case is needed.
#pragma once

#include "math_core.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

// k + 254 stands in the low bits of `shifted` (k in -254..254); p * 2^k with one rounding.
constexpr float exp_magic = 0x1.8p23f + 254.0f;
__MC_MATH float scale_two_step(float p, float shifted) {
  int i = ibits(shifted);
  int half_of_it = i >> 1;
  float s1 = from_ibits(static_cast<int>(static_cast<unsigned>(half_of_it) << 23));
  float s2 = from_ibits(static_cast<int>(static_cast<unsigned>(i - half_of_it) << 23));
  return (p * s1) * s2;
}

// e^r, |r| <= 0.347, relative error 2^-28.2
__MC_MATH float exp_poly(float r) {
  return horner(r, 0x1.6a525p-10f, 0x1.12396ep-7f, 0x1.5558aap-5f, 0x1.555492p-3f, 0x1.fffffcp-2f, 1.0f, 1.0f);
}
__MC_MATH float exp_p(float x) {
  x = at_least(at_most(x, 89.0f), -104.0f);
  float shifted = fma_(x, 0x1.715476p+0f, exp_magic);
  float k = shifted - exp_magic;
  float r = fma_(k, -0x1.62e43p-1f, x);
  r = fma_(k, 0x1.05c61p-29f, r);
  return scale_two_step(exp_poly(r), shifted);
}

// 2^r, |r| <= 0.5, relative error 2^-28.3
__MC_MATH float exp2_poly(float r) {
  return horner(r, 0x1.416b8p-13f, 0x1.5f0838p-10f, 0x1.3b2dep-7f, 0x1.c6af7cp-5f, 0x1.ebfbdcp-3f, 0x1.62e43p-1f,
      1.0f);
}
__MC_MATH float exp2_p(float x) {
  x = at_least(at_most(x, 129.0f), -151.0f);
  float shifted = x + exp_magic;
  float r = x - (shifted - exp_magic);
  return scale_two_step(exp2_poly(r), shifted);
}

__MC_MATH float exp10_p(float x) {
  x = at_least(at_most(x, 39.0f), -46.0f);
  float shifted = fma_(x, 0x1.a934fp+1f, exp_magic);
  float k = shifted - exp_magic;
  float r = fma_(k, -0x1.344136p-2f, x);
  r = fma_(k, 0x1.ec10cp-27f, r);
  // 10^r, |r| <= 0.151, relative error 2^-28.5
  float p = horner(r, 0x1.a6420ep-3f, 0x1.156a22p-1f, 0x1.2bd9fap+0f, 0x1.046f9cp+1f, 0x1.53524ap+1f, 0x1.26bb1cp+1f,
      1.0f);
  return scale_two_step(p, shifted);
}

// fast: one factor 2^(k-1) times twice the polynomial; results below 2^-125 become 0.
constexpr float fast_exp_magic = 0x1.8p23f + 126.0f;
__MC_MATH float exp2_fast_join(float r, float shifted) {
  // 2 * 2^r, relative error 2^-23.3
  float p = horner(r, 0x1.5bd898p-9f, 0x1.3ce8cp-6f, 0x1.c6b6dcp-4f, 0x1.ebf9c2p-2f, 0x1.62e42ap+0f, 2.0f);
  return p * from_bits(bits(shifted) << 23);
}
__MC_MATH float exp2_f(float x) {
  x = at_least(at_most(x, 128.0f), -126.0f);
  float shifted = x + fast_exp_magic;
  return exp2_fast_join(x - (shifted - fast_exp_magic), shifted);
}
__MC_MATH float exp_f(float x) {
  x = at_least(at_most(x, 89.0f), -87.5f);
  float shifted = fma_(x, 0x1.715476p+0f, fast_exp_magic);
  return exp2_fast_join(fma_(x, 0x1.715476p+0f, fast_exp_magic - shifted), shifted);
}
__MC_MATH float exp10_f(float x) {
  x = at_least(at_most(x, 38.6f), -38.0f);
  float shifted = fma_(x, 0x1.a934fp+1f, fast_exp_magic);
  return exp2_fast_join(fma_(x, 0x1.a934fp+1f, fast_exp_magic - shifted), shifted);
}

}  // namespace __mc_math

#pragma float_control(pop)

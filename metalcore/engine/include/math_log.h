// log, log2, log10, and log(1 + f) for the inverse hyperbolic functions.
// x = 2^k m with m in [sqrt(1/2), sqrt(2)); f = m - 1 is exact; a polynomial in f for log(1 + f).
#pragma once

#include "math_core.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

struct log_parts {
  float k;  // exponent
  float f;  // m - 1
};
// x > 0, normal
__MC_MATH log_parts log_split_normal(float x) {
  int i = ibits(x) - 0x3f3504f3;
  log_parts p;
  p.k = static_cast<float>(i >> 23);
  p.f = from_ibits(ibits(x) - (i & static_cast<int>(0xff800000u))) - 1.0f;
  return p;
}
// x > 0, denormals too
__MC_MATH log_parts log_split(float x) {
  bool tiny = x < 0x1p-126f;
  float scaled = choose(tiny, x * 0x1p24f, x);
  log_parts p = log_split_normal(scaled);
  p.k = p.k - choose(tiny, 24.0f, 0.0f);
  return p;
}
// What the polynomial cannot know: log of 0, of a negative number, of infinity and of NaN.
__MC_MATH float log_special(float x, float value) {
  float outside = choose(x == 0.0f, -inf_(), nan_());
  float inside = choose(x < inf_(), value, x);
  return choose(x > 0.0f, inside, outside);
}

// (log(1 + f) - f) / f^2, relative error of the whole 2^-27.3
__MC_MATH float log_poly(float f) {
  return horner(f, -0x1.38c428p-4f, 0x1.055e3cp-3f, -0x1.0d8302p-3f, 0x1.22d956p-3f, -0x1.54728p-3f, 0x1.99a01ap-3f,
      -0x1.000226p-2f, 0x1.555554p-2f, -0.5f);
}
__MC_MATH float log_join(float k, float f) {
  float q = log_poly(f) * f;
  float low = fma_(k, -0x1.05c61p-29f, q * f);
  return fma_(k, 0x1.62e43p-1f, f + low);
}
__MC_MATH float log_p(float x) {
  log_parts s = log_split(x);
  return log_special(x, log_join(s.k, s.f));
}
__MC_MATH float log_f(float x) {
  log_parts s = log_split_normal(x);
  return log_special(x, log_join(s.k, s.f));
}

__MC_MATH float log2_join(float k, float f) {
  float p = horner(f, -0x1.c39bacp-4f, 0x1.7f2818p-3f, -0x1.87f7eap-3f, 0x1.a2c9dcp-3f, -0x1.eaa24ap-3f,
      0x1.277f44p-2f, -0x1.715afep-2f, 0x1.ec7094p-2f, -0x1.71547p-1f);
  float low = fma_(f, 0x1.4ae0cp-26f, (p * f) * f);
  return fma_(f, 0x1.715476p+0f, low) + k;
}
__MC_MATH float log2_p(float x) {
  log_parts s = log_split(x);
  return log_special(x, log2_join(s.k, s.f));
}
__MC_MATH float log2_f(float x) {
  log_parts s = log_split_normal(x);
  return log_special(x, log2_join(s.k, s.f));
}

__MC_MATH float log10_join(float k, float f) {
  float p = horner(f, -0x1.109864p-5f, 0x1.cd0ddap-5f, -0x1.d7901ep-5f, 0x1.f84b6cp-5f, -0x1.276a58p-4f,
      0x1.63d06ap-4f, -0x1.bcbf52p-4f, 0x1.287a7p-3f, -0x1.bcb7aap-3f);
  float low = fma_(f, -0x1.5b235ep-27f, (p * f) * f);
  low = fma_(k, -0x1.ec10cp-27f, low);
  return fma_(k, 0x1.344136p-2f, fma_(f, 0x1.bcb7b2p-2f, low));
}
__MC_MATH float log10_p(float x) {
  log_parts s = log_split(x);
  return log_special(x, log10_join(s.k, s.f));
}
__MC_MATH float log10_f(float x) {
  log_parts s = log_split_normal(x);
  return log_special(x, log10_join(s.k, s.f));
}

// log(2^extra * (1 + f)) for f >= 0, finite: the rounding error of 1 + f is carried into the mantissa's fraction.
__MC_MATH float log1p_positive(float f, float extra) {
  float u = 1.0f + f;
  float lost = choose(f > 1.0f, 1.0f - (u - f), f - (u - 1.0f));
  int i = ibits(u) - 0x3f3504f3;
  int e = i & static_cast<int>(0xff800000u);
  float m = from_ibits(ibits(u) - e);
  float down = from_ibits(0x3f800000 - choose(e < 0x3f000000, e, 0x3f000000));  // 2^-k; where k > 126, `lost` is nothing
  return log_join(static_cast<float>(i >> 23) + extra, fma_(lost, down, m - 1.0f));
}

}  // namespace __mc_math

#pragma float_control(pop)

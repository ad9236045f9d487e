// Circular functions. x = k pi/2 + r by three fma with pi in three parts (the first one is exact), a polynomial for the
// sine and one for the cosine of r. From |x| = 2^18 on, x / pi is multiplied out in integers (Payne and Hanek), behind
// one branch.
#pragma once

#include "math_core.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

// pi in three parts
constexpr float pi_hi = 0x1.921fb6p+1f;
constexpr float pi_mid = -0x1.777a5cp-24f;
constexpr float pi_low = -0x1.ee59dap-49f;
constexpr float inverse_pi = 0x1.45f306p-2f;
constexpr float trig_limit = 0x1p18f;

// |x| / pi mod 2 in fixed point, one bit before the point and 63 behind it; x finite, |x| >= 2^18.
__MC_MATH unsigned long half_turns(float x) {
  unsigned u = bits(x);
  unsigned m = (u & 0x7fffffu) | 0x800000u;
  unsigned t = ((u >> 23) & 0xffu) - 119u;  // first useful bit of 1/pi, behind 32 zero bits: 26..135
  unsigned w = t >> 5;
  unsigned s = t & 31u;
  const unsigned p0 = 0x517cc1b7u, p1 = 0x27220a94u, p2 = 0xfe13abe8u, p3 = 0xfa9a6ee0u, p4 = 0x6db14accu,
                 p5 = 0x9e21c820u, p6 = 0xff28b1d5u;
  unsigned a0 = choose(w == 0, 0u, choose(w == 1, p0, choose(w == 2, p1, choose(w == 3, p2, p3))));
  unsigned a1 = choose(w == 0, p0, choose(w == 1, p1, choose(w == 2, p2, choose(w == 3, p3, p4))));
  unsigned a2 = choose(w == 0, p1, choose(w == 1, p2, choose(w == 2, p3, choose(w == 3, p4, p5))));
  unsigned a3 = choose(w == 0, p2, choose(w == 1, p3, choose(w == 2, p4, choose(w == 3, p5, p6))));
  unsigned b0 = (a0 << s) | ((a1 >> 1) >> (31u - s));
  unsigned b1 = (a1 << s) | ((a2 >> 1) >> (31u - s));
  unsigned b2 = (a2 << s) | ((a3 >> 1) >> (31u - s));
  unsigned long low = static_cast<unsigned long>(m) * b2;
  unsigned long mid = static_cast<unsigned long>(m) * b1 + (low >> 32);
  unsigned high = m * b0 + static_cast<unsigned>(mid >> 32);
  return (static_cast<unsigned long>(high) << 32) | (mid & 0xffffffffu);
}
// x = quarters * pi/2 + r, |r| <= pi/4
struct quarter_turns {
  float r;
  unsigned quarters;  // its low two bits count
};
__MC_MATH quarter_turns reduce(float x) {
  float shifted = fma_(x, 2.0f * inverse_pi, round_magic);
  float k = shifted - round_magic;
  float r = fma_(k, -0.5f * pi_hi, x);
  r = fma_(k, -0.5f * pi_mid, r);
  r = fma_(k, -0.5f * pi_low, r);
  unsigned quarters = bits(shifted);
  if (__builtin_expect(!(fabs_(x) < trig_limit), 0)) {
    unsigned long turns = half_turns(x);
    unsigned long fraction = turns << 2;
    // Its leading 24 bits, rounded, and the signed rest, so that a small result keeps its precision.
    int lead = static_cast<int>(static_cast<long>(fraction) >> 40) + static_cast<int>((fraction >> 39) & 1u);
    unsigned long remains = fraction - (static_cast<unsigned long>(static_cast<long>(lead)) << 40);
    float y = static_cast<float>(lead) * 0x1p-24f;
    float y_low = static_cast<float>(static_cast<int>(static_cast<long>(remains) >> 8)) * 0x1p-56f;
    r = y * (0.5f * pi_hi);
    r = r + fma_(y_low, 0.5f * pi_hi, fma_(y, 0.5f * pi_mid, fma_(y, 0.5f * pi_hi, -r)));
    quarters = static_cast<unsigned>(turns >> 61) + 1u >> 1;
    bool negative = ibits(x) < 0;
    quarters = choose(negative, 0u - quarters, quarters);
    r = choose(negative, -r, r);
    r = choose(fabs_(x) < inf_(), r, nan_());
  }
  quarter_turns t;
  t.r = r;
  t.quarters = quarters;
  return t;
}
// On |r| <= pi/4: relative errors 2^-27.9 and 2^-33; the cosine is never above 1.
__MC_MATH float sin_quarter(float r, float z) {
  float p = -0x1.9952fep-13f;
  p = fma_(p, z, 0x1.110776p-7f);
  p = fma_(p, z, -0x1.555546p-3f);
  return fma_(p * z, r, r);
}
__MC_MATH float cos_quarter(float z) {
  return horner(z, 0x1.99e80cp-16f, -0x1.6c0c28p-10f, 0x1.55554ap-5f, -0.5f, 1.0f);
}
// `which` if quarters is even, `other` if odd; the sign is that of quarters' second bit.
__MC_MATH float choose_quarter(unsigned quarters, float which, float other, unsigned sign) {
  bool odd = static_cast<int>(quarters << 31) < 0;
  return from_bits(bits(choose(odd, other, which)) ^ ((sign << 30) & 0x80000000u));
}
__MC_MATH float sincos_p(float x, float& cosine) {
  quarter_turns t = reduce(x);
  float z = t.r * t.r;
  float s = sin_quarter(t.r, z);
  float c = cos_quarter(z);
  cosine = choose_quarter(t.quarters, c, s, t.quarters + 1u);
  float y = choose_quarter(t.quarters, s, c, t.quarters);
  return choose(x == 0.0f, x, y);
}

// tan(r) for |r| <= pi/4, relative error 2^-29.5
__MC_MATH float tan_quarter(float r) {
  float z = r * r;
  float p = horner(z, 0x1.1ecbf8p-8f, 0x1.8040cap-14f, 0x1.62f3ap-7f, 0x1.5cb9eap-6f, 0x1.bada4ep-5f, 0x1.110d9cp-3f,
      0x1.55556p-2f);
  return fma_(p * z, r, r);
}
__MC_MATH float tan_p(float x) {
  quarter_turns q = reduce(x);
  float t = tan_quarter(q.r);
  t = choose((q.quarters & 1u) != 0, -1.0f / t, t);
  return choose(x == 0.0f, x, t);
}

// fast: pi in two parts, one polynomial on |r| <= pi/2 (relative error 2^-27.2), no large arguments.
__MC_MATH float sin_half_turn(float r, unsigned parity) {
  float z = r * r;
  float p = horner(z, 0x1.5dc84ap-19f, -0x1.9f70eap-13f, 0x1.110edap-7f, -0x1.55554cp-3f);
  return from_bits(bits(fma_(p * z, r, r)) ^ parity);
}
// The limit keeps the result near [-1, 1] where x is so large that the reduction means nothing.
__MC_MATH float minus_turns(float x, float k, float limit) {
  float r = fma_(k, -pi_mid, fma_(k, -pi_hi, x));
  return at_least(at_most(r, limit), -limit);
}
__MC_MATH float sin_f(float x) {
  float shifted = fma_(x, inverse_pi, round_magic);
  return sin_half_turn(minus_turns(x, shifted - round_magic, 1.58f), bits(shifted) << 31);
}
__MC_MATH float cos_f(float x) {
  float shifted = fma_(x, inverse_pi, 0.5f) + round_magic;
  return sin_half_turn(minus_turns(x, (shifted - round_magic) - 0.5f, 1.58f), bits(shifted) << 31);
}
__MC_MATH float sincos_f(float x, float& cosine) {
  cosine = cos_f(x);
  return sin_f(x);
}
__MC_MATH float tan_f(float x) {
  float shifted = fma_(x, 2.0f * inverse_pi, round_magic);
  float t = tan_quarter(minus_turns(x, 0.5f * (shifted - round_magic), 0.8f));
  return choose((bits(shifted) & 1u) != 0, -1.0f / t, t);
}

// sin(pi x) and cos(pi x): whole turns are taken off exactly, then quarters as above with pi inside the polynomials.
__MC_MATH float sincospi(float x, float& cosine) {
  float t = fma_(-2.0f, __builtin_rintf(0.5f * x), x);
  float shifted = fma_(t, 2.0f, round_magic);
  float r = fma_(-0.5f, shifted - round_magic, t);
  float z = r * r;
  float p = horner(z, 0x1.443a92p-4f, -0x1.32adaap-1f, 0x1.466b78p+1f, -0x1.4abbcep+2f);
  float s = fma_(r, pi_hi, fma_(r, pi_mid, (p * z) * r));
  float q = 0x1.d4f63p-3f;
  q = fma_(q, z, -0x1.55b2b4p+0f);
  q = fma_(q, z, 0x1.03c1bp+2f);
  q = fma_(q, z, -0x1.3bd3ccp+2f);
  float c = fma_(q, z, 1.0f);
  unsigned quarters = bits(shifted);
  cosine = choose_quarter(quarters, c, s, quarters + 1u);
  return choose_quarter(quarters, s, c, quarters);
}
__MC_MATH float sinpi_p(float x) {
  float cosine;
  float y = sincospi(x, cosine);
  return choose(y == 0.0f, copysign_(0.0f, x), y);
}
__MC_MATH float cospi_p(float x) {
  float cosine;
  sincospi(fabs_(x), cosine);
  return choose(cosine == 0.0f, 0.0f, cosine);
}
__MC_MATH float tanpi_p(float x) {
  float t = x - __builtin_rintf(x);  // exact, |t| <= 1/2
  float shifted = fma_(t, 2.0f, round_magic);
  float r = fma_(-0.5f, shifted - round_magic, t);
  float z = r * r;
  // tan(pi r), |r| <= 1/4
  float p = horner(z, 0x1.efcd4p+16f, -0x1.698474p+5f, 0x1.917daap+11f, 0x1.3cbda6p+9f, 0x1.4696cep+7f,
      0x1.466742p+5f, 0x1.4abbdap+3f);
  float y = fma_(r, pi_hi, fma_(r, pi_mid, (p * z) * r));
  y = choose((bits(shifted) & 1u) != 0, -1.0f / y, y);
  y = choose(fabs_(t) == 0.5f, copysign_(inf_(), t), y);
  return choose(x == 0.0f, x, y);
}

// asin(s) - s for |s| <= 1/2, z = s^2; relative error of the whole 2^-27.6
__MC_MATH float asin_rest(float s, float z) {
  float p = horner(z, 0x1.595d0ap-5f, 0x1.8c3dcep-6f, 0x1.747bbep-5f, 0x1.330204p-4f, 0x1.5555c8p-3f);
  return (p * z) * s;
}
// Above 1/2: asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)); |x| > 1 gives the NaN of the root.
struct asin_parts {
  bool big;
  float s, rest;  // asin of what is below 1/2 is s + rest
};
__MC_MATH asin_parts asin_split(float a) {
  bool big = a > 0.5f;
  float z = choose(big, fma_(-0.5f, a, 0.5f), a * a);
  float s = choose(big, sqrt_(z), a);
  return {big, s, asin_rest(s, z)};
}
__MC_MATH float asin_p(float x) {
  asin_parts a = asin_split(fabs_(x));
  float main = fma_(-2.0f, a.s, 0.5f * pi_hi);
  float lost = fma_(-2.0f, a.s, 0.5f * pi_hi - main);
  float outer = main - (fma_(2.0f, a.rest, -0.5f * pi_mid) - lost);
  return copysign_(choose(a.big, outer, a.s + a.rest), x);
}
__MC_MATH float acos_p(float x) {
  asin_parts a = asin_split(fabs_(x));
  bool negative = x < 0.0f;
  // With w = s + rest: pi - 2 w, 2 w, pi/2 - w, pi/2 + w
  float top = choose(a.big, choose(negative, pi_hi, 0.0f), 0.5f * pi_hi);
  float top_low = choose(a.big, choose(negative, pi_mid, 0.0f), 0.5f * pi_mid);
  float factor = choose(a.big, choose(negative, -2.0f, 2.0f), choose(negative, 1.0f, -1.0f));
  return fma_(factor, a.s, top) + fma_(factor, a.rest, top_low);
}

// atan(q) for 0 <= q <= 1, relative error 2^-28; atan(1) is pi/4 rounded
__MC_MATH float atan_poly(float q) {
  float z = q * q;
  float p = horner(z, -0x1.d35824p-10f, 0x1.642422p-7f, -0x1.fd7db2p-6f, 0x1.da2a14p-5f, -0x1.580924p-4f,
      0x1.c08c4ap-4f, -0x1.242082p-3f, 0x1.9991ep-3f, -0x1.55553ep-2f);
  return fma_(p * z, q, q);
}
__MC_MATH float atan_p(float x) {
  float a = fabs_(x);
  bool big = a > 1.0f;
  float t = atan_poly(choose(big, 1.0f / a, a));
  float y = choose(big, 0x1.921fb6p+0f - (t + 0x1.777a5cp-25f), t);
  return copysign_(y, x);
}
__MC_MATH float atan2_p(float y, float x) {
  float ay = fabs_(y);
  float ax = fabs_(x);
  bool steep = ay > ax;
  float top = choose(steep, ax, ay);
  float bottom = choose(steep, ay, ax);
  float q = top / bottom;
  q = choose(bottom == 0.0f, 0.0f, q);
  q = choose(top == inf_(), 1.0f, q);
  float t = atan_poly(q);
  t = choose(steep, 0x1.921fb6p+0f - (t + 0x1.777a5cp-25f), t);
  t = choose(ibits(x) < 0, 0x1.921fb6p+1f - (t + 0x1.777a5cp-24f), t);
  t = choose(is_nan(x) | is_nan(y), x + y, t);
  return copysign_(t, y);
}

}  // namespace __mc_math

#pragma float_control(pop)

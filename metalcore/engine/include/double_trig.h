// Circular functions where float is read as double. x = k pi/2 + r with r as a sum of two doubles, Taylor series for the
// sine and the cosine of r. From |x| = 2^45 on, x * 2/pi is multiplied out in integers (Payne and Hanek).
#pragma once

#include "double_exp.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

constexpr double half_pi_hi = 0x1.921fb54442d18p+0, half_pi_mid = 0x1.1a62633145c07p-54, half_pi_low = -0x1.f1976b7ed8fbcp-110;

// 2/pi behind 64 zero bits
static __mc_constant unsigned long two_over_pi[] = {
    0x0000000000000000ul, 0xa2f9836e4e441529ul, 0xfc2757d1f534ddc0ul, 0xdb6295993c439041ul, 0xfe5163abdebbc561ul,
    0xb7246e3a424dd2e0ul, 0x06492eea09d1921cul, 0xfe1deb1cb129a73eul, 0xe88235f52ebb4484ul, 0xe99c7026b45f7e41ul,
    0x3991d639835339f4ul, 0x9c845f8bbdf9283bul, 0x1ff897ffde05980ful, 0xef2f118b5a0a6d1ful, 0x6d367ecf27cb09b7ul,
    0x4f463f669e5fea2dul, 0x7527bac7ebe5f17bul, 0x3d0739f78a5292eaul, 0x6bfb5fb11f8d5d08ul, 0x56033046fc7b6babul};

__MC_MATH unsigned long upper_product(unsigned long a, unsigned long b) {
  unsigned long a0 = a & 0xfffffffful, a1 = a >> 32, b0 = b & 0xfffffffful, b1 = b >> 32;
  unsigned long low = a0 * b0, m1 = a1 * b0 + (low >> 32), m2 = a0 * b1 + (m1 & 0xfffffffful);
  return a1 * b1 + (m1 >> 32) + (m2 >> 32);
}

// x = quarters * pi/2 + hi + lo, |hi| < 0.79
struct quarter_turns {
  double hi, lo;
  unsigned quarters;  // its low two bits count
};
// x finite, |x| >= 2^45: the bits of 2/pi that make multiples of 4 are left out, the next 192 are enough.
__MC_MATH quarter_turns reduce_large(double x) {
  unsigned long u = bits(x), m = (u & 0xffffffffffffful) | 0x10000000000000ul;
  int e = static_cast<int>(u >> 52 & 0x7ff) - 1075;  // |x| = m 2^e, -7 <= e <= 971
  unsigned first = static_cast<unsigned>(e + 62), w = first >> 6, s = first & 63;
  unsigned long a0 = two_over_pi[w], a1 = two_over_pi[w + 1], a2 = two_over_pi[w + 2], a3 = two_over_pi[w + 3];
  unsigned long b0 = (a0 << s) | ((a1 >> 1) >> (63 - s));
  unsigned long b1 = (a1 << s) | ((a2 >> 1) >> (63 - s));
  unsigned long b2 = (a2 << s) | ((a3 >> 1) >> (63 - s));
  unsigned long low = m * b1, mid = low + upper_product(m, b2);
  unsigned long high = m * b0 + upper_product(m, b1) + (mid < low ? 1 : 0);
  // high's upper two bits count quarters; what follows is the fraction, taken as a signed number.
  unsigned long fraction = (high << 2) | (mid >> 62), below = mid << 2;
  unsigned quarters = static_cast<unsigned>(high >> 62) + static_cast<unsigned>(fraction >> 63);
  double lead = static_cast<double>(static_cast<long>(fraction & ~0x7fful));
  double rest = static_cast<double>(static_cast<long>(fraction & 0x7fful)) * 0x1p-64 + static_cast<double>(below >> 1) * 0x1p-127;
  two_doubles f = ordered_sum(lead * 0x1p-64, rest);
  two_doubles r = multiply(f, {half_pi_hi, half_pi_mid});
  bool negative = ibits(x) < 0;
  return {choose(negative, -r.hi, r.hi), choose(negative, -r.lo, r.lo), choose(negative, 0u - quarters, quarters)};
}
__MC_MATH quarter_turns reduce(double x) {
  double k = __builtin_rint(x * 0x1.45f306dc9c883p-1);
  double r = fma_(k, -half_pi_hi, x);  // exact
  two_doubles t = product_of(k, -half_pi_mid);
  two_doubles s = sum_of(r, t.hi);
  two_doubles y = ordered_sum(s.hi, s.lo + fma_(k, -half_pi_low, t.lo));
  quarter_turns q = {y.hi, y.lo, static_cast<unsigned>(static_cast<long>(k))};
  if (__builtin_expect(!(fabs_(x) < 0x1p45), 0)) {
    q = reduce_large(x);
    q.hi = choose(fabs_(x) < inf_(), q.hi, nan_());
  }
  return q;
}
// sin and cos of hi + lo, |hi| < 0.8
__MC_MATH double sin_series(double hi, double lo) {
  double z = hi * hi;
  double p = horner(z, -1.0 / 121645100408832000.0, 1.0 / 355687428096000.0, -1.0 / 1307674368000.0,
      1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0);
  return hi + fma_(p * z, hi, fma_(-0.5 * z, lo, lo));
}
__MC_MATH double cos_series(double hi, double lo) {
  double z = hi * hi;
  double p = horner(z, 1.0 / 2432902008176640000.0, -1.0 / 6402373705728000.0, 1.0 / 20922789888000.0,
      -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5);
  return 1.0 + fma_(p, z, -hi * lo);
}
__MC_MATH double sincos_of(quarter_turns q, double& cosine) {
  double s = sin_series(q.hi, q.lo), c = cos_series(q.hi, q.lo);
  bool odd = (q.quarters & 1u) != 0, second = (q.quarters & 2u) != 0;
  cosine = choose(odd, -s, c);
  cosine = choose(second, -cosine, cosine);
  double sine = choose(odd, c, s);
  return choose(second, -sine, sine);
}
__MC_MATH double sincos_p(double x, double& cosine) {
  double s = sincos_of(reduce(x), cosine);
  return choose(x == 0.0, x, s);
}
__MC_MATH double tan_p(double x) {
  double cosine;
  double s = sincos_p(x, cosine);
  return choose(x == 0.0, x, s / cosine);
}

// sin(pi x) and cos(pi x): whole turns are taken off exactly.
__MC_MATH double sincospi(double x, double& cosine) {
  double t = fma_(-2.0, __builtin_rint(0.5 * x), x);
  double k = __builtin_rint(2.0 * t);
  two_doubles r = multiply({fma_(-0.5, k, t), 0.0}, {2.0 * half_pi_hi, 2.0 * half_pi_mid});
  return sincos_of({r.hi, r.lo, static_cast<unsigned>(whole(k))}, cosine);
}
__MC_MATH double sinpi_p(double x) {
  double cosine;
  double y = sincospi(x, cosine);
  return choose(y == 0.0, copysign_(0.0, x), y);
}
__MC_MATH double cospi_p(double x) {
  double cosine;
  sincospi(fabs_(x), cosine);
  return choose(cosine == 0.0, 0.0, cosine);
}
__MC_MATH double tanpi_p(double x) {
  double t = x - __builtin_rint(x);  // exact, |t| <= 1/2
  double cosine;
  double y = sincospi(t, cosine) / cosine;
  y = choose(fabs_(t) == 0.5, copysign_(inf_(), t), y);
  return choose(x == 0.0, x, y);
}

// atan(q) for 0 <= q <= 1; above tan(pi/8) it is pi/4 - atan((1 - q) / (1 + q)).
__MC_MATH double atan_unit(double q) {
  bool large = q > 0x1.a827999fcef32p-2;
  double t = choose(large, (q - 1.0) / (q + 1.0), q);
  double z = t * t;
  double p = horner(-z, 1.0 / 45.0, 1.0 / 43.0, 1.0 / 41.0, 1.0 / 39.0, 1.0 / 37.0, 1.0 / 35.0, 1.0 / 33.0,
      1.0 / 31.0, 1.0 / 29.0, 1.0 / 27.0, 1.0 / 25.0, 1.0 / 23.0, 1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0, 1.0 / 15.0,
      1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0);
  double y = fma_(-p * z, t, t);
  return choose(large, 0.5 * half_pi_hi + (y + 0.5 * half_pi_mid), y);
}
__MC_MATH double atan2_p(double y, double x) {
  double ay = fabs_(y);
  double ax = fabs_(x);
  bool steep = ay > ax;
  double top = choose(steep, ax, ay);
  double bottom = choose(steep, ay, ax);
  double q = top / bottom;
  q = choose(bottom == 0.0, 0.0, q);
  q = choose(top == inf_(), 1.0, q);
  double t = atan_unit(q);
  t = choose(steep, half_pi_hi - (t - half_pi_mid), t);
  t = choose(ibits(x) < 0, 2.0 * half_pi_hi - (t - 2.0 * half_pi_mid), t);
  t = choose(is_nan(x) | is_nan(y), x + y, t);
  return copysign_(t, y);
}
__MC_MATH double atan_p(double x) { return atan2_p(x, 1.0); }
__MC_MATH double asin_p(double x) { return atan2_p(x, sqrt_((1.0 - x) * (1.0 + x))); }
__MC_MATH double acos_p(double x) { return 2.0 * atan2_p(sqrt_(1.0 - x), sqrt_(1.0 + x)); }

// fast:: is the same.
__MC_MATH double tan_f(double x) { return tan_p(x); }
__MC_MATH double sincos_f(double x, double& cosine) { return sincos_p(x, cosine); }

}  // namespace __mc_math

#pragma float_control(pop)

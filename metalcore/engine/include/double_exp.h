// exp, log and pow where float is read as double: exact to an ulp or two, not fast. Sums of two doubles carry the low
// parts; the polynomials are Taylor series.
#pragma once

#include "math_rounding.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

// hi + lo, with |lo| at most half an ulp of hi
struct two_doubles {
  double hi, lo;
};
__MC_MATH two_doubles sum_of(double a, double b) {
  double s = a + b;
  double t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
// The same where |a| >= |b| or a is 0.
__MC_MATH two_doubles ordered_sum(double a, double b) {
  double s = a + b;
  return {s, b - (s - a)};
}
__MC_MATH two_doubles product_of(double a, double b) {
  double p = a * b;
  return {p, fma_(a, b, -p)};
}
__MC_MATH two_doubles add(two_doubles a, two_doubles b) {
  two_doubles s = sum_of(a.hi, b.hi);
  return ordered_sum(s.hi, s.lo + (a.lo + b.lo));
}
__MC_MATH two_doubles multiply(two_doubles a, two_doubles b) {
  two_doubles p = product_of(a.hi, b.hi);
  return ordered_sum(p.hi, p.lo + fma_(a.hi, b.lo, a.lo * b.hi));
}

constexpr two_doubles ln_2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
constexpr two_doubles ln_10 = {0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53};
constexpr two_doubles log2_e = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
constexpr two_doubles log10_e = {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};

// A NaN as an integer would be undefined.
__MC_MATH int whole(double k) { return static_cast<int>(choose(is_nan(k), 0.0, k)); }

// e^r - 1, |r| <= 0.36
__MC_MATH double expm1_series(double r) {
  double p = horner(r, 1.0 / 1307674368000.0, 1.0 / 87178291200.0, 1.0 / 6227020800.0, 1.0 / 479001600.0,
      1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0,
      1.0 / 24.0, 1.0 / 6.0, 0.5);
  return fma_(p * r, r, r);
}
// x = k ln 2 + (hi + lo). The first step is exact: the leading part of ln 2 has 40 bits.
struct exp_parts {
  double k, hi, lo;
};
__MC_MATH exp_parts exp_split(double x) {
  constexpr double lead = 0x1.62e42fefa2p-1, rest = 0x1.9ef35793c7673p-41;
  exp_parts p;
  p.k = __builtin_rint(x * log2_e.hi);
  double r = fma_(p.k, -lead, x);
  p.hi = fma_(p.k, -rest, r);
  p.lo = fma_(p.k, -rest, r - p.hi);
  return p;
}
// e^(hi + lo) * 2^k, |k| <= 2000
__MC_MATH double exp_join(double k, double hi, double lo) {
  double e = expm1_series(hi);
  return scale_by(1.0 + (e + fma_(lo, e, lo)), whole(k));
}
// e^(x + low) * 2^shift; a NaN stays one
__MC_MATH double exp_of(double x, double low, double shift) {
  x = at_least(at_most(x, 760.0), -760.0);
  exp_parts p = exp_split(x);
  return exp_join(p.k + shift, p.hi, p.lo + low);
}
__MC_MATH double exp_p(double x) { return exp_of(x, 0.0, 0.0); }
__MC_MATH double exp2_p(double x) {
  x = at_least(at_most(x, 1100.0), -1100.0);
  double k = __builtin_rint(x);
  double r = x - k;
  two_doubles t = multiply({r, 0.0}, ln_2);
  return exp_join(k, t.hi, t.lo);
}
__MC_MATH double exp10_p(double x) {
  constexpr double lead = 0x1.34413509f6p-2, rest = 0x1.9fef311f12b36p-42;  // log10(2)
  x = at_least(at_most(x, 330.0), -330.0);
  double k = __builtin_rint(x * 0x1.a934f0979a371p+1);
  double r = fma_(k, -lead, x);
  double hi = fma_(k, -rest, r);
  double lo = fma_(k, -rest, r - hi);
  two_doubles t = multiply({hi, lo}, ln_10);
  return exp_join(k, t.hi, t.lo);
}
__MC_MATH double expm1_positive(double x) {
  exp_parts p = exp_split(at_most(x, 710.0));
  double e = expm1_series(p.hi);
  e = e + fma_(p.lo, e, p.lo);
  double scale = from_ibits((static_cast<signed_word>(whole(p.k)) + 1022) << 52);  // 2^k / 2, k <= 1025
  return 2.0 * fma_(scale, e, scale - 0.5);
}

// x = 2^k m with m in [sqrt(1/2), sqrt(2)), and log m = 2 (s + s^3/3 + s^5/5 + ...) with s = (m - 1) / (m + 1).
struct log_result {
  double k;
  two_doubles log_m;
};
__MC_MATH log_result log_split(double x) {
  exponent_parts p = split_exponent(x);
  bool high = p.m >= 0x1.6a09e667f3bcdp+0;
  double m = choose(high, 0.5 * p.m, p.m);
  double f = m - 1.0;
  two_doubles d = ordered_sum(2.0, f);
  double s = f / d.hi;
  double s_low = fma_(-s, d.lo, fma_(-s, d.hi, f)) / d.hi;
  two_doubles q = ordered_sum(s, s_low);
  two_doubles z = multiply(q, q);
  double t = 1.0 / 35.0;
  t = fma_(t, z.hi, 1.0 / 33.0);
  t = fma_(t, z.hi, 1.0 / 31.0);
  t = fma_(t, z.hi, 1.0 / 29.0);
  t = fma_(t, z.hi, 1.0 / 27.0);
  t = fma_(t, z.hi, 1.0 / 25.0);
  t = fma_(t, z.hi, 1.0 / 23.0);
  t = fma_(t, z.hi, 1.0 / 21.0);
  t = fma_(t, z.hi, 1.0 / 19.0);
  t = fma_(t, z.hi, 1.0 / 17.0);
  t = fma_(t, z.hi, 1.0 / 15.0);
  t = fma_(t, z.hi, 1.0 / 13.0);
  t = fma_(t, z.hi, 1.0 / 11.0);
  t = fma_(t, z.hi, 1.0 / 9.0);
  t = fma_(t, z.hi, 1.0 / 7.0);
  two_doubles series = add({0.2, -0x1.999999999999ap-57}, product_of(t, z.hi));
  series = add({0x1.5555555555555p-2, 0x1.5555555555555p-56}, multiply(series, z));
  two_doubles cube = multiply(multiply(series, z), q);
  two_doubles half_of_it = add(q, cube);
  log_result r;
  r.k = p.e + choose(high, 1.0, 0.0);
  r.log_m = {2.0 * half_of_it.hi, 2.0 * half_of_it.lo};
  return r;
}
__MC_MATH two_doubles log_of(double x) {
  log_result r = log_split(x);
  two_doubles k = product_of(r.k, ln_2.hi);
  k.lo = fma_(r.k, ln_2.lo, k.lo);
  return add(k, r.log_m);
}
// What the series cannot know: log of 0, of a negative number, of infinity and of NaN.
__MC_MATH double log_special(double x, double value) {
  double outside = choose(x == 0.0, -inf_(), nan_());
  double inside = choose(x < inf_(), value, x);
  return choose(x > 0.0, inside, outside);
}
__MC_MATH double log_p(double x) { return log_special(x, log_of(x).hi); }
__MC_MATH double log2_p(double x) {
  log_result r = log_split(x);
  return log_special(x, add({r.k, 0.0}, multiply(r.log_m, log2_e)).hi);
}
__MC_MATH double log10_p(double x) { return log_special(x, multiply(log_of(x), log10_e).hi); }

// log(2^extra * (1 + f)) for f >= 0, finite
__MC_MATH double log1p_positive(double f, double extra) {
  two_doubles u = sum_of(1.0, f);
  two_doubles l = log_of(u.hi);
  return l.hi + (l.lo + u.lo / u.hi) + extra * ln_2.hi;
}

// fast:: is the same.
__MC_MATH double exp_f(double x) { return exp_p(x); }
__MC_MATH double exp2_f(double x) { return exp2_p(x); }
__MC_MATH double exp10_f(double x) { return exp10_p(x); }
__MC_MATH double log_f(double x) { return log_p(x); }
__MC_MATH double log2_f(double x) { return log2_p(x); }
__MC_MATH double log10_f(double x) { return log10_p(x); }

// |x|^y, by the rules of powr for x >= 0: NaN for 0^0, inf^0 and 1^inf.
__MC_MATH double power(double a, double y) {
  two_doubles l = log_of(a);
  bool usual = (a > 0.0) & (a < inf_());
  double hi = choose(usual, l.hi, choose(a == 0.0, -inf_(), a));
  double t = y * hi;
  double t_low = fma_(y, l.lo, fma_(y, hi, -t));
  t_low = choose(fabs_(t) < 800.0, t_low, 0.0);
  return exp_of(t, t_low, 0.0);
}

}  // namespace __mc_math

#pragma float_control(pop)

#include "math_pow_cases.h"

// pow and powr: log2(x) as an unevaluated sum of two floats (about 33 bits), times y, then 2^ of the sum.
#pragma once

#include "math_exp.h"
#include "math_log.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

struct two_floats {
  float hi, lo;
};
// log2 of a > 0. With s = f / (2 + f): log2(1 + f) = 2 / ln 2 * (s + s^3/3 + ...), s to double length.
__MC_MATH two_floats log2_two(float a) {
  log_parts p = log_split(a);
  float f = p.f;
  float d = 2.0f + f;
  float d_low = f - (d - 2.0f);
  float inverse = 1.0f / d;
  float s = f * inverse;
  float rest = fma_(-s, d, f);
  rest = fma_(-s, d_low, rest);
  float s_low = rest * inverse;
  // 2/3/ln 2 s^2 + ... with the rounding errors of its two largest steps kept
  float z = s * s;
  float z_low = fma_(s + s, s_low, fma_(s, s, -z));
  float q = 0x1.589074p-2f;
  q = fma_(q, z, 0x1.a5d046p-2f);
  q = fma_(q, z, 0x1.2776ep-1f);
  float step = q * z;
  q = step + 0x1.ec709ep-1f;
  float q_low = step - (q - 0x1.ec709ep-1f);
  float t = q * z;
  float t_low = fma_(q, z, -t) + fma_(q, z_low, q_low * z);
  float h = s * 0x1.715476p+1f;
  float l = fma_(s, 0x1.715476p+1f, -h);
  l = fma_(s, 0x1.4ae0cp-25f, l);
  l = fma_(s_low, 0x1.715476p+1f, l);
  l = fma_(t_low, s, l);
  l = fma_(t, s, l);
  float sum = p.k + h;
  l = (h - (sum - p.k)) + l;
  two_floats r;
  r.hi = sum + l;
  r.lo = l - (r.hi - sum);
  return r;
}

// fast: 2^(y log2 |x|)
__MC_MATH float powr_f(float x, float y) { return exp2_f(y * log2_f(x)); }
__MC_MATH float pow_f(float x, float y) {
  float r = exp2_f(y * log2_f(fabs_(x)));
  float half_y = 0.5f * y;
  bool whole = __builtin_floorf(y) == y;
  bool odd = whole & (__builtin_floorf(half_y) != half_y);
  r = choose((ibits(x) < 0) & odd, -r, r);
  r = choose((x < 0.0f) & !whole, nan_(), r);
  return choose(y == 0.0f, 1.0f, r);
}

// |x|^y, by the rules of powr for x >= 0: NaN for 0^0, inf^0 and 1^inf.
__MC_MATH float power(float a, float y) {
  two_floats l = log2_two(a);
  bool usual = (a > 0.0f) & (a < inf_());
  float hi = choose(usual, l.hi, choose(a == 0.0f, -inf_(), a));
  float t = y * hi;
  float t_low = fma_(y, l.lo, fma_(y, hi, -t));
  t_low = choose(fabs_(t) < 256.0f, t_low, 0.0f);
  t = at_least(at_most(t, 160.0f), -160.0f);
  float shifted = t + exp_magic;
  float r = (t - (shifted - exp_magic)) + t_low;
  return scale_two_step(exp2_poly(r), shifted);
}

}  // namespace __mc_math

#pragma float_control(pop)

#include "math_pow_cases.h"

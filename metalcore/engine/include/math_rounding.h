// Rounding, splitting and joining of numbers: exact in every mode.
#pragma once

#include "math_core.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

__MC_MATH float ceil_p(float x) { return __builtin_ceilf(x); }
__MC_MATH float floor_p(float x) { return __builtin_floorf(x); }
__MC_MATH float trunc_p(float x) { return __builtin_truncf(x); }
__MC_MATH float rint_p(float x) { return __builtin_rintf(x); }
__MC_MATH float round_p(float x) { return __builtin_roundf(x); }
__MC_MATH float fabs_p(float x) { return __builtin_fabsf(x); }
__MC_MATH float copysign_p(float x, float y) { return __builtin_copysignf(x, y); }

// x - floor(x), below 1; NaN for an infinite x.
__MC_MATH float fract_p(float x) { return at_most(x - __builtin_floorf(x), 0x1.fffffep-1f); }

__MC_MATH float modf_p(float x, float& whole) {
  float w = __builtin_truncf(x);
  whole = w;
  float r = choose(fabs_(x) < inf_(), x - w, choose(x == x, 0.0f, x));
  return copysign_(r, x);
}

// Exponent field of a scaled copy, with denormals brought into the normal range first.
struct exponent_parts {
  float m;  // mantissa in [1, 2) with the sign of x
  int e;    // x = m * 2^e
};
__MC_MATH exponent_parts split_exponent(float x) {
  bool tiny = fabs_(x) < 0x1p-126f;
  unsigned u = bits(choose(tiny, x * 0x1p24f, x));
  exponent_parts p;
  p.e = static_cast<int>((u >> 23) & 0xffu) - choose(tiny, 151, 127);
  p.m = from_bits((u & 0x807fffffu) | 0x3f800000u);
  return p;
}
__MC_MATH bool zero_or_not_finite(float x) { return !(fabs_(x) < inf_()) | (x == 0.0f); }

__MC_MATH float frexp_p(float x, int& e) {
  exponent_parts p = split_exponent(x);
  bool special = zero_or_not_finite(x);
  e = choose(special, 0, p.e + 1);
  return choose(special, x, p.m * 0.5f);
}
__MC_MATH int ilogb_p(float x) {
  int e = split_exponent(x).e;
  int special = choose(x == 0.0f, -2147483647 - 1, 2147483647);
  return choose(zero_or_not_finite(x), special, e);
}
// m * 2^t for m of ordinary size and |t| <= 250, rounded once.
__MC_MATH float scale_by(float m, int t) {
  int t1 = t >> 1;
  float s1 = from_ibits((t1 + 127) << 23);
  float s2 = from_ibits((t - t1 + 127) << 23);
  return (m * s1) * s2;
}
__MC_MATH float ldexp_p(float x, int k) {
  k = choose(k > 400, 400, k);
  k = choose(k < -400, -400, k);
  exponent_parts p = split_exponent(x);
  int t = p.e + k;
  t = choose(t > 130, 130, t);
  t = choose(t < -152, -152, t);
  return choose(zero_or_not_finite(x), x, scale_by(p.m, t));
}

__MC_MATH float nextafter_p(float x, float y) {
  int i = ibits(x);
  int step = choose((x < y) == (i >= 0), 1, -1);
  float moved = from_ibits(i + step);
  moved = choose(x == 0.0f, copysign_(0x1p-149f, y), moved);
  moved = choose(x == y, y, moved);
  return choose(is_nan(x) | is_nan(y), x + y, moved);
}

// The same for half and bfloat.
template <typename T>
__MC_MATH T nextafter_short(T x, T y) {
  short i = __builtin_bit_cast(short, x);
  float a = static_cast<float>(x);
  float b = static_cast<float>(y);
  int step = choose((a < b) == (i >= 0), 1, -1);
  short least = static_cast<short>((__builtin_bit_cast(short, y) & -32768) | 1);
  T moved = __builtin_bit_cast(T, choose(a == 0.0f, least, static_cast<short>(i + step)));
  moved = choose(a == b, y, moved);
  return choose(is_nan(a) | is_nan(b), static_cast<T>(a + b), moved);
}

}  // namespace __mc_math

#pragma float_control(pop)

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

// x - floor(x), below 1; NaN for an infinite x.
__MC_MATH float fract_p(float x) { return at_most(x - __builtin_floorf(x), largest_below_one); }

__MC_MATH float modf_p(float x, float& whole) {
  float w = __builtin_truncf(x);
  whole = w;
  float r = choose(fabs_(x) < inf_(), x - w, choose(x == x, float(0), x));
  return copysign_(r, x);
}

// Exponent field of a scaled copy, with denormals brought into the normal range first.
struct exponent_parts {
  float m;  // mantissa in [1, 2) with the sign of x
  int e;    // x = m * 2^e
};
__MC_MATH exponent_parts split_exponent(float x) {
  constexpr word one = static_cast<word>(largest_exponent) << mantissa_bits, exponent = 2 * largest_exponent + 1;
  constexpr float up = word(2) << mantissa_bits;
  bool tiny = fabs_(x) < least_normal;
  word u = bits(choose(tiny, x * up, x));
  exponent_parts p;
  p.e = static_cast<int>((u >> mantissa_bits) & exponent) - choose(tiny, largest_exponent + mantissa_bits + 1, largest_exponent);
  p.m = from_bits((u & ~(exponent << mantissa_bits)) | one);
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
// m * 2^t for m of ordinary size and |t| <= 2 * largest_exponent - 4, rounded once.
__MC_MATH float scale_by(float m, int t) {
  int t1 = t >> 1;
  float s1 = from_ibits(static_cast<signed_word>(t1 + largest_exponent) << mantissa_bits);
  float s2 = from_ibits(static_cast<signed_word>(t - t1 + largest_exponent) << mantissa_bits);
  return (m * s1) * s2;
}
__MC_MATH float ldexp_p(float x, int k) {
  constexpr int most = 4 * largest_exponent, least = largest_exponent + mantissa_bits + 2;
  k = choose(k > most, most, k);
  k = choose(k < -most, -most, k);
  exponent_parts p = split_exponent(x);
  int t = p.e + k;
  t = choose(t > largest_exponent + 3, largest_exponent + 3, t);
  t = choose(t < -least, -least, t);
  return choose(zero_or_not_finite(x), x, scale_by(p.m, t));
}

__MC_MATH float nextafter_p(float x, float y) {
  signed_word i = ibits(x);
  int step = choose((x < y) == (i >= 0), 1, -1);
  float moved = from_ibits(i + step);
  moved = choose(x == 0.0f, copysign_(least_positive, y), moved);
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

// A number as an unevaluated sum of two floats: high is the float nearest to high + low, which has 48 bits or more.
// Bounds are relative to the exact result and hold where nothing overflows, no operand is infinite, and products,
// dividends and numbers under a root are 0 or at least 2^-102 in size (2^-79 where small numbers are flushed to zero): a
// smaller one has no room for its low part. u is half the distance from 1 to the next float: 2^-24, and 2^-53 where float is read as double.
// Sources: Knuth (two_sum), Dekker (fast_two_sum), Joldes, Muller, Popescu 2017 (+, *, /), Lefevre, Louvet, Muller,
// Picot, Rideau 2022 (sqrt). The high part of a result is the float that is nearest to it, so rounding is free.
//
// Fast math may replace every error term below by zero. Metal knows the first pragma from version 3.2 on; before that
// the host must compile with safe math, which torch.mps.compile_shader and mx.fast.metal_kernel do unless told not to.
#pragma once
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#include <metal_stdlib>
using namespace metal;

struct FloatFloat {
  float high;
  float low;
};

// a + b without error.
inline FloatFloat two_sum(float a, float b) {
  const float sum = a + b;
  const float part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

// The same where |a| >= |b| or a is 0.
inline FloatFloat fast_two_sum(float a, float b) {
  const float sum = a + b;
  return {sum, b - (sum - a)};
}

// a * b without error.
inline FloatFloat two_product(float a, float b) {
  const float product = a * b;
  return {product, fma(a, b, -product)};
}

inline FloatFloat from_float(float a) { return {a, 0.0f}; }

// Without error.
inline FloatFloat from_int(int a) {
  const float high = float(a);
  return {high, float(long(a) - long(high))};
}

inline FloatFloat from_uint(uint a) {
  const float high = float(a);
  return {high, float(long(a) - long(high))};
}

inline float to_float(FloatFloat a) { return a.high; }

inline FloatFloat operator-(FloatFloat a) { return {-a.high, -a.low}; }

// Error below 2 u^2.
inline FloatFloat operator+(FloatFloat a, float b) {
  const FloatFloat sum = two_sum(a.high, b);
  return fast_two_sum(sum.high, a.low + sum.low);
}

// Error below 3 u^2 / (1 - 4 u), whatever the signs.
inline FloatFloat operator+(FloatFloat a, FloatFloat b) {
  const FloatFloat sum = two_sum(a.high, b.high);
  const FloatFloat rest = two_sum(a.low, b.low);
  const FloatFloat near = fast_two_sum(sum.high, sum.low + rest.high);
  return fast_two_sum(near.high, near.low + rest.low);
}

inline FloatFloat operator-(FloatFloat a, float b) { return a + -b; }
inline FloatFloat operator-(FloatFloat a, FloatFloat b) { return a + -b; }

// Error below 2 u^2.
inline FloatFloat operator*(FloatFloat a, float b) {
  const FloatFloat product = two_product(a.high, b);
  return fast_two_sum(product.high, fma(a.low, b, product.low));
}

// Error below 4 u^2 (5 u^2 in the paper's first version).
inline FloatFloat operator*(FloatFloat a, FloatFloat b) {
  const FloatFloat product = two_product(a.high, b.high);
  const float cross = fma(a.high, b.low, a.low * b.low);
  return fast_two_sum(product.high, product.low + fma(a.low, b.high, cross));
}

// Error below 3.5 u^2.
inline FloatFloat operator/(FloatFloat a, float b) {
  const float quotient = precise::divide(a.high, b);
  const FloatFloat product = two_product(quotient, b);
  const float rest = (a.high - product.high) - product.low;
  return fast_two_sum(quotient, precise::divide(rest + a.low, b));
}

// Error below 15 u^2 + 56 u^3.
inline FloatFloat operator/(FloatFloat a, FloatFloat b) {
  const float quotient = precise::divide(a.high, b.high);
  const FloatFloat product = b * quotient;
  const float rest = (a.high - product.high) + (a.low - product.low);
  return fast_two_sum(quotient, precise::divide(rest, b.high));
}

// a * b + c; error below 4 u^2 |a * b| + 3 u^2 |a * b + c|: the product is rounded before the sum.
inline FloatFloat fma(FloatFloat a, FloatFloat b, FloatFloat c) { return a * b + c; }

// Error below 25 / 8 u^2; 0 gives 0, a negative number NaN.
inline FloatFloat sqrt(FloatFloat a) {
  const float root = precise::sqrt(a.high);
  const float rest = fma(-root, root, a.high) + a.low;
  const FloatFloat near = fast_two_sum(root, precise::divide(rest, 2.0f * root));
  return {a.high == 0.0f ? a.high : near.high, a.high == 0.0f ? 0.0f : near.low};
}

inline bool operator==(FloatFloat a, FloatFloat b) { return a.high == b.high && a.low == b.low; }
inline bool operator!=(FloatFloat a, FloatFloat b) { return !(a == b); }
inline bool operator<(FloatFloat a, FloatFloat b) { return a.high < b.high || (a.high == b.high && a.low < b.low); }
inline bool operator>(FloatFloat a, FloatFloat b) { return b < a; }
inline bool operator<=(FloatFloat a, FloatFloat b) { return a < b || a == b; }
inline bool operator>=(FloatFloat a, FloatFloat b) { return b < a || a == b; }

// a + b where either may be infinite or NaN, or the sum too large: the error of such a sum would be NaN.
inline FloatFloat finite_sum(FloatFloat a, FloatFloat b) {
  const FloatFloat sum = a + b;
  const float plain = a.high + b.high;
  const bool is_kept = isfinite(plain) && isfinite(sum.high);
  const float large = isfinite(plain) ? copysign(INFINITY, plain) : plain;
  return {is_kept ? sum.high : large, is_kept ? sum.low : 0.0f};
}

// A sum and what its additions lost, as a pair.
inline FloatFloat finite_pair(float value, float error) {
  const FloatFloat sum = two_sum(value, error);
  return {isfinite(value) ? sum.high : value, isfinite(value) && isfinite(sum.high) ? sum.low : 0.0f};
}

// The sum over a simdgroup, in all of its lanes: error below 15 u^2 times the sum of magnitudes.
inline FloatFloat simd_total(FloatFloat mine) {
  for (ushort step = 16; step > 0; step /= 2) {
    mine = finite_sum(mine, {simd_shuffle_xor(mine.high, step), simd_shuffle_xor(mine.low, step)});
  }
  return mine;
}

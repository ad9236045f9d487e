// Activations and their slopes, of one number or a vector (F), for a result of type T: for 16 bits shorter polynomials
// do. No branches: on a CPU they run as vector code, where few steps and a short way from the first to the last count.
#pragma once
#include "exponential.h"

// 1 / (1 + e^-x)
template <typename T = float, typename F>
inline F sigmoid(F x) {
  return 1.0f / one_plus_exp_minus<T>(x);
}

template <typename T = float, typename F>
inline F silu(F x) {
  return x / one_plus_exp_minus<T>(x);
}

// The slope of silu, from s = sigmoid(x).
template <typename F>
inline F silu_slope(F x, F s) {
  return s * fma(x, 1.0f - s, F(1.0f));
}

// The normal distribution at x. MSL has no erf: with it, the share below x is (1 + erf(x / sqrt 2)) / 2.
template <typename F>
struct Normal {
  F size;     // |x|, but at most where the tail is 0
  F tail;     // the share beyond |x|
  F density;  // e^(-x^2 / 2) / sqrt(2 pi)
};

// The share beyond a = |x| is e^(-a^2 / 2) times a slowly falling function of a: so the tail keeps its digits, where
// 1 + erf loses them.
#ifdef METALCORE_DOUBLE
// That function is a polynomial in 1 / (a + k), moved to -1..1. The rounding of a^2 is taken into account.
template <typename T = float, typename F>
inline Normal<F> normal(F x) {
  const F size = fabs(x);
  const F a = select(size, F(39.0f), size > F(39.0f));  // min would lose a NaN
  const F square = a * a;
  const F rest = fma(a, a, -square);
  F bell = exp(-0.5f * square);
  bell = fma(bell, -0.5f * rest, bell);
  const F u = 1.0f / (a + 4.0f);
  const F t = fma(u, F(8.820512820512820513f), F(-1.205128205128205128f));
  F p = horner(t, F(-1.1266701221127189e-10f), -2.63577628112410424e-10f, 1.68162189256375098e-9f,
      1.56397873239544601e-9f, -1.37742219444871058e-8f, 3.30230595954278985e-9f, 8.38960262979316841e-8f,
      -1.152902906648431e-7f, -4.35397198810328657e-7f, 1.21397945599765333e-6f, 2.18401872737998771e-6f,
      -1.04639338018827044e-5f, -1.36222930558618211e-5f, 8.84701791926671002e-5f, 1.4720806298855065e-4f,
      -7.3742089195659481e-4f, -2.50145905673954085e-3f, 3.25884619004613755e-3f, 4.29063267769419946e-2f,
      0.156369955467943494f, 0.363906736827038546f, 0.621244102224725365f, 0.815338396842516908f);
  return {a, bell * (u * p), bell * 0.39894228040143268f};
}
#else
// x 2^n, where n stands in the low bits of a number near 1.5 * 2^23
inline float scale(float x, float n) { return as_type<float>(as_type<uint>(x) + (as_type<uint>(n) << 23)); }
inline float4 scale(float4 x, float4 n) { return as_type<float4>(as_type<uint4>(x) + (as_type<uint4>(n) << 23)); }

// 2^r for r in -0.5..0.5
template <typename T, typename F>
inline F exp2_part(F r) {
  F p;
  if (sizeof(T) > 2) {
    // relative error 2^-28
    p = horner(r, F(1.5238006e-4f), 1.3391137e-3f, 9.618841e-3f, 5.5503592e-2f, 0.24022645f, 0.6931472f);
  } else {
    // relative error 2^-18
    p = horner(r, F(9.582853e-3f), 5.5906426e-2f, 0.24024099f, 0.6931242f);
  }
  return fma(p, r, F(1.0f));
}

// That function is a quotient of polynomials.
template <typename T = float, typename F>
inline Normal<F> normal(F x) {
  const F size = fabs(x);
  const F a = select(size, F(14.5f), size > F(14.5f));  // min would lose a NaN
  // bell = 2^(64 - c a^2), c = 1 / (2 ln 2): 2^64 keeps it normal until the end. That c is rounded is in the quotient.
  const F square = a * a;
  const F magic = F(12582976.0f);  // 1.5 * 2^23 + 64
  const F shifted = fma(square, F(-0.7213475108146667f), magic);
  const F r = fma(square, F(-0.7213475108146667f), magic - shifted);
  const F bell = scale(exp2_part<T>(r), shifted);
  F over;  // times 2^-64
  F under;
  if (sizeof(T) > 2) {
    // the quotient's relative error is 2^-26
    over = horner(a, F(3.268195e-22f), 3.1681403e-21f, 1.4083294e-20f, 3.327171e-20f, 3.7303332e-20f);
    under = horner(a, F(0.0151119055f), 0.14649487f, 0.666189f, 1.6870077f, 2.3255987f, 1.37625f);
  } else {
    // 2^-21
    over = horner(a, F(1.4269062e-21f), 9.993705e-21f, 3.0242628e-20f, 4.1741766e-20f);
    under = horner(a, F(0.06598676f), 0.46178865f, 1.4695523f, 2.3444686f, 1.54f);
  }
  return {a, bell * over / under, bell * 2.162670435537773e-20f};
}
#endif

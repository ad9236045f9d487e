// Activations and their slopes, of one number or a vector (F). No branches: on a CPU they run as vector code.
#pragma once
#include <metal_stdlib>
using namespace metal;

// 1 / (1 + e^-x)
template <typename F>
inline F sigmoid(F x) {
  return 1.0f / (1.0f + exp(-x));
}

template <typename F>
inline F silu(F x) {
  return x / (1.0f + exp(-x));
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

// The share beyond a = |x| is e^(-a^2 / 2) times a polynomial in 1 / (a + k), moved to -1..1: so the tail keeps its
// digits, where 1 + erf loses them. The rounding of a^2 is taken into account.
#ifdef METALCORE_DOUBLE
template <typename F>
inline Normal<F> normal(F x) {
  const F size = fabs(x);
  const F a = select(size, F(39.0f), size > F(39.0f));  // min would lose a NaN
  const F square = a * a;
  const F rest = fma(a, a, -square);
  F bell = exp(-0.5f * square);
  bell = fma(bell, -0.5f * rest, bell);
  const F u = 1.0f / (a + 4.0f);
  const F t = fma(u, F(8.820512820512820513f), F(-1.205128205128205128f));
  F p = F(-1.1266701221127189e-10f);
  p = fma(p, t, F(-2.63577628112410424e-10f));
  p = fma(p, t, F(1.68162189256375098e-9f));
  p = fma(p, t, F(1.56397873239544601e-9f));
  p = fma(p, t, F(-1.37742219444871058e-8f));
  p = fma(p, t, F(3.30230595954278985e-9f));
  p = fma(p, t, F(8.38960262979316841e-8f));
  p = fma(p, t, F(-1.152902906648431e-7f));
  p = fma(p, t, F(-4.35397198810328657e-7f));
  p = fma(p, t, F(1.21397945599765333e-6f));
  p = fma(p, t, F(2.18401872737998771e-6f));
  p = fma(p, t, F(-1.04639338018827044e-5f));
  p = fma(p, t, F(-1.36222930558618211e-5f));
  p = fma(p, t, F(8.84701791926671002e-5f));
  p = fma(p, t, F(1.4720806298855065e-4f));
  p = fma(p, t, F(-7.3742089195659481e-4f));
  p = fma(p, t, F(-2.50145905673954085e-3f));
  p = fma(p, t, F(3.25884619004613755e-3f));
  p = fma(p, t, F(4.29063267769419946e-2f));
  p = fma(p, t, F(0.156369955467943494f));
  p = fma(p, t, F(0.363906736827038546f));
  p = fma(p, t, F(0.621244102224725365f));
  p = fma(p, t, F(0.815338396842516908f));
  return {a, bell * (u * p), bell * 0.39894228040143268f};
}
#else
// x 2^n, where n stands in the low bits of a number near 1.5 * 2^23
inline float scale(float x, float n) { return as_type<float>(as_type<uint>(x) + (as_type<uint>(n) << 23)); }
inline float4 scale(float4 x, float4 n) { return as_type<float4>(as_type<uint4>(x) + (as_type<uint4>(n) << 23)); }

template <typename F>
inline Normal<F> normal(F x) {
  // The order keeps few values alive, so that the engine can run two parts of a simdgroup side by side.
  const F size = fabs(x);
  const F a = select(size, F(14.5f), size > F(14.5f));  // min would lose a NaN
  const F t = 7.1762071f / (a + 3.0f) - 1.4010689f;
  F share = F(-5.772208e-25f);  // 2^-64 of the tail over e^(-a^2 / 2), relative error 2^-26.5
  share = fma(share, t, F(4.249023e-25f));
  share = fma(share, t, F(6.82404e-24f));
  share = fma(share, t, F(-9.3362406e-24f));
  share = fma(share, t, F(-8.1509324e-23f));
  share = fma(share, t, F(8.675082e-23f));
  share = fma(share, t, F(1.5676474e-21f));
  share = fma(share, t, F(5.6053858e-21f));
  share = fma(share, t, F(1.14597465e-20f));
  share = fma(share, t, F(8.714611e-21f));
  // bell = 2^(64 - c a^2), c = 1 / (2 ln 2): 2^64 keeps it normal until the end. That c is rounded is in `share`.
  const F square = a * a;
  const F magic = F(12582976.0f);  // 1.5 * 2^23 + 64
  const F shifted = fma(square, F(-0.7213475108146667f), magic);
  const F r = fma(square, F(-0.7213475108146667f), magic - shifted);
  F bell = F(1.5238006e-4f);  // 2^r, relative error 2^-28
  bell = fma(bell, r, F(1.3391137e-3f));
  bell = fma(bell, r, F(9.618841e-3f));
  bell = fma(bell, r, F(5.5503592e-2f));
  bell = fma(bell, r, F(0.24022645f));
  bell = fma(bell, r, F(0.6931472f));
  bell = fma(bell, r, F(1.0f));
  bell = scale(bell, shifted);
  return {a, bell * share, bell * 2.162670435537773e-20f};
}
#endif

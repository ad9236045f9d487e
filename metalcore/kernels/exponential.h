// e^-x for a result of type T: for 16 bits a shorter polynomial does. e^-x = 2^k e^-r is 0 below 2^-125: so one factor
// 2^(k-1) serves, beside twice the polynomial.
#pragma once
#include <metal_stdlib>
using namespace metal;

// A polynomial in x by fused steps, the coefficient of the highest power first.
template <typename F>
inline F horner(F x, F p) {
  return p;
}
template <typename F, typename... C>
inline F horner(F x, F p, float next, C... rest) {
  return horner(x, fma(p, x, F(next)), rest...);
}

#ifdef METALCORE_DOUBLE
template <typename T = float, typename F>
inline F exp_minus(F x) {
  return exp(-x);
}

template <typename T = float, typename F>
inline F one_plus_exp_minus(F x) {
  return 1.0f + exp(-x);
}
#else
// 2^n, where n + 127 stands in the low bits of a number near 1.5 * 2^23
inline float power(float n) { return as_type<float>(as_type<uint>(n) << 23); }
inline float4 power(float4 n) { return as_type<float4>(as_type<uint4>(n) << 23); }

template <typename F>
struct Split {
  F twice;  // 2 e^-r
  F shift;  // k - 1, as `power` takes it
};

// Of e^-x, where -x is in -87.5..89
template <typename T, typename F>
inline Split<F> split_exp_minus(F x) {
  const F magic = F(12583038.0f);  // 1.5 * 2^23 + 126
  const F shifted = fma(x, F(-1.442695f), magic);
  F p;
  if (sizeof(T) > 2) {
    const F k = shifted - magic;
    const F r = fma(k, F(-1.9046542e-9f), fma(k, F(0.693147182f), x));
    // 2 e^-r, relative error 2^-28
    p = horner(r, F(2.764294e-3f), -1.6737325e-2f, 8.333651e-2f, -0.33333042f, 0.9999999f, -2.0f, 2.0f);
  } else {
    const F r = fma(x, F(-1.442695f), magic - shifted);
    // 2 2^r, relative error 2^-18
    p = horner(r, F(1.9165706e-2f), 0.11181285f, 0.48048198f, 1.3862484f, 2.0f);
  }
  return {p, shifted};
}

// e^-x for x from -88 on, or NaN
template <typename T = float, typename F>
inline F exp_minus(F x) {
  const Split<F> e = split_exp_minus<T>(select(x, F(87.5f), x > F(87.5f)));  // min would lose a NaN
  return e.twice * power(e.shift);
}

// 1 + e^-x
template <typename T = float, typename F>
inline F one_plus_exp_minus(F x) {
  const F v = select(x, F(-89.0f), x < F(-89.0f));
  const Split<F> e = split_exp_minus<T>(select(v, F(87.5f), v > F(87.5f)));
  return fma(e.twice, power(e.shift), F(1.0f));
}
#endif

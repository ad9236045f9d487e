// gelu(x) = x Phi(x), Phi the share of the normal distribution below x                      (arXiv:1606.08415)
//   or, where is_tanh: x (1 + tanh v) / 2 = x / (1 + e^-2v) with v = sqrt(2 / pi) (x + 0.044715 x^3)
#pragma once
#include "activation.h"

constant bool is_tanh [[function_constant(0)]];

template <typename F>
struct Gelu {
  F gate;   // gelu(x) / x
  F slope;  // of gelu at x
};

// From e^-|2v|, which is never infinite, both 1 / (1 + e^-2v) and one minus it keep their digits. |2v| is the product
// `v` and the sum of what its two steps were rounded by.
template <typename F>
inline Gelu<F> gelu_tanh_precise(F x) {
  const F size = fabs(x);
  const F a = select(size, F(100.0f), size > F(100.0f));  // min would lose a NaN; e is 0 there
  const F square = a * a;
  const F q = fma(square, F(0.07135481627260025f), F(1.5957691216057308f));
  const F v = a * q;
  F e = exp(-v);
  F rest = fma(square, F(0.07135481627260025f), 1.5957691216057308f - q);
  rest = fma(fma(a, a, -square), F(0.07135481627260025f), rest);
  e = fma(e, -fma(a, rest, fma(a, q, -v)), e);
  const F r = 1.0f / (1.0f + e);
  const F gate = select(r, e * r, x < a);
  return {gate, fma(x * (e * r * r), fma(square, F(0.21406444881780076f), F(1.5957691216057308f)), gate)};
}

// 2v of x
template <typename F>
inline F twice(F x) {
  return x * fma(x * x, F(0.07135481627260025f), F(1.5957691216057308f));
}

template <typename T, typename F>
inline Gelu<F> gelu_tanh(F x) {
  if (sizeof(T) > 2) {
    return gelu_tanh_precise(x);
  }
  F a = select(x, F(100.0f), x > F(100.0f));  // beyond, the slope is 0 or 1
  a = select(a, F(-100.0f), a < F(-100.0f));
  const F s = sigmoid<T>(twice(a));
  return {s, fma(x * fma(-s, s, s), fma(a * a, F(0.21406444881780076f), F(1.5957691216057308f)), s)};
}

template <typename T = float, typename F>
inline F gelu(F x) {
  if (is_tanh) {
    return sizeof(T) > 2 ? x * gelu_tanh_precise(x).gate : x / one_plus_exp_minus<T>(twice(x));
  }
  const F above = fma(F(0.5f), x, 0.5f * fabs(x));  // max(x, 0), but NaN for -infinity, as torch has it
  const Normal<F> n = normal<T>(x);
  return fma(-n.size, n.tail, above);
}

template <typename T = float, typename F>
inline Gelu<F> gelu_parts(F x) {
  if (is_tanh) {
    return gelu_tanh<T>(x);
  }
  const Normal<F> n = normal<T>(x);
  const F below = select(1.0f - n.tail, n.tail, x < n.size);
  return {below, fma(x, n.density, below)};
}

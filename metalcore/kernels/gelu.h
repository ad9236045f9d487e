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
inline Gelu<F> gelu_tanh(F x) {
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

template <typename F>
inline F gelu(F x) {
  if (is_tanh) {
    return x * gelu_tanh(x).gate;
  }
  const Normal<F> n = normal(x);
  return fma(-n.size, n.tail, select(x, x - x, x < n.size));  // max(x, 0), but NaN for -infinity, as torch has it
}

template <typename F>
inline Gelu<F> gelu_parts(F x) {
  if (is_tanh) {
    return gelu_tanh(x);
  }
  const Normal<F> n = normal(x);
  const F below = select(1.0f - n.tail, n.tail, x < n.size);
  return {below, fma(x, n.density, below)};
}

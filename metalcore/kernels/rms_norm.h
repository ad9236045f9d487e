// y = w x r,  r = 1 / sqrt(s),  s = mean(x^2) + eps                  (arXiv:1910.07467)
// dx = r (w g - x mean(w g x) / s),  dw = sum over rows of g x r
// s is kept, not r: in a short row the two terms of dx nearly cancel, and 1 / s has fewer roundings than r r.
#pragma once
#include "norm.h"

// Mean of x^2 over the row.
template <uint V, typename T>
inline float mean_square(device const T* x, threadgroup float* partial, Lane at, Row row) {
  wide<float, V> squares = wide<float, V>(0.0f);
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    const wide<float, V> v = load<V>(x, i);
    squares = fma(v, v, squares);
  }
  return group_sum(total(squares), partial, at) / row.width;
}

template <uint V, typename T, typename W>
inline void rms_apply(device const T* x, device const W* weight, device T* y, float s, bool has_weight, Row row) {
  const float r = inverse_root(s);
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    wide<float, V> v = load<V>(x, i) * r;
    if (has_weight) {
      v *= load<V>(weight, i);
    }
    store<V>(y, i, v);
  }
}

// R rows of dx that follow one another, and their part of dw added to `share`. carry: a gradient that is added to dx,
// where has_carry.
template <uint R, uint V, typename T, typename W>
inline void rms_gradient(
    device const T* g,
    device const T* x,
    device const T* carry,
    device const W* weight,
    device const float* power,
    device T* dx,
    device float* share,
    bool has_weight,
    bool has_share,
    bool has_carry,
    threadgroup float* partial,
    Lane at,
    Row row) {
  using F = wide<float, V>;
  float c[R];
  float r[R];
  ulong from[R];
  _Pragma("clang loop unroll(full)")
  for (uint k = 0; k < R; k++) {
    from[k] = k * ulong(row.steps);
    F dots = F(0.0f);
    for (uint i = row.lid; i < row.steps; i += row.group_size) {
      F v = load<V>(g, from[k] + i);
      if (has_weight) {
        v *= load<V>(weight, i);
      }
      dots = fma(v, load<V>(x, from[k] + i), dots);
    }
    c[k] = group_sum(total(dots), partial, at) / row.width / power[k];
    r[k] = inverse_root(power[k]);
  }
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    Share<W, V> sum = {F(0.0f), F(0.0f)};
    _Pragma("clang loop unroll(full)")
    for (uint k = 0; k < R; k++) {
      const F gi = load<V>(g, from[k] + i);
      const F xi = load<V>(x, from[k] + i);
      if (has_share) {
        sum.add(gi, F(r[k]), xi);
      }
      F v = gi;
      if (has_weight) {
        v *= load<V>(weight, i);
      }
      v = fma(-xi, F(c[k]), v) * r[k];
      if (has_carry) {
        v += load<V>(carry, from[k] + i);
      }
      store<V>(dx, from[k] + i, v);
    }
    if (has_share) {
      store<V>(share, i, load<V>(share, i) + sum.result());
    }
  }
}

// The rows of one block.
template <uint V, typename T, typename W>
inline void rms_gradients(
    device const T* g,
    device const T* x,
    device const T* carry,
    device const W* weight,
    device const float* power,
    device T* dx,
    device float* share,
    bool has_weight,
    bool has_share,
    bool has_carry,
    long first,
    long last,
    long width,
    threadgroup float* partial,
    Lane at,
    Row row) {
  if (has_share) {
    clear<V>(share, row);
  }
  for (; first + AtOnce<V>::rows <= last; first += AtOnce<V>::rows) {
    const long from = first * width;
    rms_gradient<AtOnce<V>::rows, V>(
        g + from, x + from, carry + from, weight, power + first, dx + from, share, has_weight, has_share, has_carry,
        partial, at, row);
  }
  for (; AtOnce<V>::rows > 1 && first < last; first++) {
    const long from = first * width;
    rms_gradient<1, V>(
        g + from, x + from, carry + from, weight, power + first, dx + from, share, has_weight, has_share, has_carry,
        partial, at, row);
  }
}

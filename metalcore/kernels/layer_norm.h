// y = w (x - m) r + b,  m = mean(x),  r = 1 / sqrt(s),  s = mean((x - m)^2) + eps          (arXiv:1607.06450)
// dx = r (v - mean(v) - (x - m) mean(v (x - m)) / s),  v = w g
// dw = sum over rows of g (x - m) r,  db = sum over rows of g
// s is kept, not r: in a short row the terms of dx nearly cancel, and 1 / s has fewer roundings than r r.
#pragma once
#include "norm.h"

// The mean is kept as rounded + rest: where a row's values nearly agree, a rounded mean alone would spoil x - m.
struct Moments {
  float mean;
  float rest;
  float s;
};

// Moments from the sum of a row. The second pass is exact where the mean is large beside the spread.
template <uint V, typename T>
inline Moments moments_of(device const T* x, float sum, float eps, threadgroup float* partial, Lane at, Row row) {
  using F = wide<float, V>;
  const float mean = sum / row.width;
  F rests = F(0.0f);
  F squares = F(0.0f);
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    const F v = load<V>(x, i) - mean;
    rests += v;
    squares = fma(v, v, squares);
  }
  const float rest = group_sum(total(rests), partial, at) / row.width;
  const float square = group_sum(total(squares), partial, at) / row.width;
  return {mean, rest, fma(-rest, rest, square) + eps};
}

inline void keep(Moments found, device float* moments, uint row) {
  moments[3 * ulong(row)] = found.mean;
  moments[3 * ulong(row) + 1] = found.rest;
  moments[3 * ulong(row) + 2] = found.s;
}

template <uint V, typename T, typename W>
inline void layer_apply(
    device const T* x,
    device const W* weight,
    device const W* bias,
    device T* y,
    Moments of,
    bool has_weight,
    bool has_bias,
    Row row) {
  using F = wide<float, V>;
  const float r = inverse_root(of.s);
  const float shift = -of.rest * r;
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    F v = fma(load<V>(x, i) - of.mean, F(r), F(shift));
    if (has_weight && has_bias) {
      v = fma(v, load<V>(weight, i), load<V>(bias, i));
    } else if (has_weight) {
      v *= load<V>(weight, i);
    } else if (has_bias) {
      v += load<V>(bias, i);
    }
    store<V>(y, i, v);
  }
}

// Which gradients are made, and of what.
struct LayerParts {
  bool has_weight;
  bool has_weight_share;
  bool has_bias_share;
  bool has_carry;
};

// R rows of dx that follow one another, and their parts of dw and db added to the shares. carry: a gradient that is added to dx.
template <uint R, uint V, typename T, typename W>
inline void layer_gradient(
    device const T* g,
    device const T* x,
    device const T* carry,
    device const W* weight,
    device const float* moments,
    device T* dx,
    device float* weight_share,
    device float* bias_share,
    LayerParts has,
    threadgroup float* partial,
    Lane at,
    Row row) {
  using F = wide<float, V>;
  float mean[R];
  float rest[R];
  float shift[R];
  float slope[R];
  float r[R];
  ulong from[R];
  _Pragma("clang loop unroll(full)")
  for (uint k = 0; k < R; k++) {
    from[k] = k * ulong(row.steps);
    mean[k] = moments[3 * k];
    rest[k] = moments[3 * k + 1];
    const float s = moments[3 * k + 2];
    F sums = F(0.0f);
    F dots = F(0.0f);
    for (uint i = row.lid; i < row.steps; i += row.group_size) {
      F v = load<V>(g, from[k] + i);
      if (has.has_weight) {
        v *= load<V>(weight, i);
      }
      sums += v;
      dots = fma(v, load<V>(x, from[k] + i) - mean[k] - rest[k], dots);
    }
    shift[k] = group_sum(total(sums), partial, at) / row.width;
    slope[k] = group_sum(total(dots), partial, at) / row.width / s;
    r[k] = inverse_root(s);
  }
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    Share<W, V> weight_sum = {F(0.0f), F(0.0f)};
    Share<W, V> bias_sum = {F(0.0f), F(0.0f)};
    _Pragma("clang loop unroll(full)")
    for (uint k = 0; k < R; k++) {
      const F gi = load<V>(g, from[k] + i);
      const F xi = load<V>(x, from[k] + i) - mean[k] - rest[k];
      if (has.has_weight_share) {
        weight_sum.add(gi, F(r[k]), xi);
      }
      if (has.has_bias_share) {
        bias_sum.add(gi);
      }
      F v = gi;
      if (has.has_weight) {
        v *= load<V>(weight, i);
      }
      v = fma(-xi, F(slope[k]), v - shift[k]) * r[k];
      if (has.has_carry) {
        v += load<V>(carry, from[k] + i);
      }
      store<V>(dx, from[k] + i, v);
    }
    if (has.has_weight_share) {
      store<V>(weight_share, i, load<V>(weight_share, i) + weight_sum.result());
    }
    if (has.has_bias_share) {
      store<V>(bias_share, i, load<V>(bias_share, i) + bias_sum.result());
    }
  }
}

// The rows of one block.
template <uint V, typename T, typename W>
inline void layer_gradients(
    device const T* g,
    device const T* x,
    device const T* carry,
    device const W* weight,
    device const float* moments,
    device T* dx,
    device float* weight_share,
    device float* bias_share,
    LayerParts has,
    long first,
    long last,
    long width,
    threadgroup float* partial,
    Lane at,
    Row row) {
  if (has.has_weight_share) {
    clear<V>(weight_share, row);
  }
  if (has.has_bias_share) {
    clear<V>(bias_share, row);
  }
  for (; first + AtOnce<V>::rows <= last; first += AtOnce<V>::rows) {
    const long from = first * width;
    layer_gradient<AtOnce<V>::rows, V>(
        g + from, x + from, carry + from, weight, moments + 3 * first, dx + from, weight_share, bias_share, has, partial,
        at, row);
  }
  for (; AtOnce<V>::rows > 1 && first < last; first++) {
    const long from = first * width;
    layer_gradient<1, V>(
        g + from, x + from, carry + from, weight, moments + 3 * first, dx + from, weight_share, bias_share, has, partial,
        at, row);
  }
}

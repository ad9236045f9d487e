// dx = r (v - mean(v) - (x - m) mean(v (x - m)) / s),  v = w g; m and s as in layer_norm.h
// dw = sum over rows of g (x - m) r,  db = sum over rows of g
// s is kept, not r: in a short row the terms of dx nearly cancel, and 1 / s has fewer roundings than r r.
#pragma once
#include "norm.h"

// Which gradients are made, and of what.
struct LayerParts {
  bool has_weight;
  bool has_weight_share;
  bool has_bias_share;
  bool has_carry;
  bool is_exact;
};

// Sums over a row of v and v (x - m).
struct LayerDots {
  float sum;
  float dot;
};

// The rows of a gradient: what is read, and what is written.
template <typename T, typename W>
struct LayerGradient {
  device const T* g;
  device const T* x;
  device const T* carry;  // a gradient that is added to dx, where has_carry
  device const W* weight;
  device const float* moments;
  device T* dx;
  device float* weight_share;
  device float* bias_share;
  LayerParts has;
  long width;

  LayerGradient moved(long rows) const {
    const long by = rows * width;
    return {g + by, x + by, carry + by, weight, moments + 3 * rows, dx + by, weight_share, bias_share, has, width};
  }

  template <uint V>
  LayerDots sums(threadgroup float* partial, Lane at, Row row) const {
    using F = wide<float, V>;
    const float mean = moments[0];
    F sums = F(0.0f);
    F dots = F(0.0f);
    for (uint i = row.lid; i < row.steps; i += row.group_size) {
      F v = load<V>(g, i);
      if (has.has_weight) {
        v *= load<V>(weight, i);
      }
      sums += v;
      dots = fma(v, load<V>(x, i) - mean, dots);
    }
    const float sum = group_sum(total(sums), partial, at);
    return {sum, fma(-moments[1], sum, group_sum(total(dots), partial, at))};
  }

  template <uint V>
  void clear_shares(Row row) const {
    if (has.has_weight_share) {
      clear<V>(weight_share, row);
    }
    if (has.has_bias_share) {
      clear<V>(bias_share, row);
    }
  }

  // R rows of dx that follow one another, and their parts of dw and db added to the shares.
  template <uint R, uint V>
  void write(threadgroup LayerDots* kept, threadgroup float* partial, Lane at, Row row) const {
    using F = wide<float, V>;
    LayerDots dots[R];
    gradient_sums<R, V>(*this, dots, kept, partial, at, row);
    float mean[R];
    float rest[R];
    float shift[R];
    float slope[R];
    Fine<float> roots[R];
    float r[R];
    _Pragma("clang loop unroll(full)")
    for (uint k = 0; k < R; k++) {
      mean[k] = moments[3 * k];
      rest[k] = moments[3 * k + 1];
      const float s = moments[3 * k + 2];
      shift[k] = dots[k].sum / row.width;
      slope[k] = dots[k].dot / row.width / s;
      roots[k] = fine_inverse_root(s);
      r[k] = roots[k].value;
    }
    for (uint i = row.lid; i < row.steps; i += row.group_size) {
      Share<V> weight_sum = {F(0.0f), F(0.0f), has.is_exact};
      Share<V> bias_sum = {F(0.0f), F(0.0f), has.is_exact};
      const F w = has.has_weight ? load<V>(weight, i) : F(1.0f);
      _Pragma("clang loop unroll(full)")
      for (uint k = 0; k < R; k++) {
        const F gi = load<V>(g + k * width, i);
        const F raw = load<V>(x + k * width, i);
        const Fine<F> from_mean = difference(raw, F(mean[k]));
        const F xi = from_mean.value - rest[k];
        if (has.has_weight_share) {
          const F lost = from_mean.rest + ((from_mean.value - xi) - rest[k]);
          weight_sum.add(gi, {F(r[k]), F(roots[k].rest)}, {xi, lost});
        }
        if (has.has_bias_share) {
          bias_sum.add(gi);
        }
        F v;
        if (has.is_exact) {
          v = fma(-xi, F(slope[k]), (has.has_weight ? gi * w : gi) - shift[k]) * r[k];
        } else {
          v = fma(-xi, F(slope[k] * r[k]), F(-shift[k] * r[k]));
          v = has.has_weight ? fma(gi * r[k], w, v) : fma(gi, F(r[k]), v);
        }
        if (has.has_carry) {
          v += load<V>(carry + k * width, i);
        }
        store<V>(dx + k * width, i, v);
      }
      if (has.has_weight_share) {
        store<V>(weight_share, i, load<V>(weight_share, i) + weight_sum.result());
      }
      if (has.has_bias_share) {
        store<V>(bias_share, i, load<V>(bias_share, i) + bias_sum.result());
      }
    }
  }
};

// y = w x r,  r = 1 / sqrt(s),  s = mean(x^2) + eps                  (arXiv:1910.07467)
// dx = r (w g - x mean(w g x) / s),  dw = sum over rows of g x r
// s is kept, not r: in a short row the two terms of dx nearly cancel, and 1 / s has fewer roundings than r r.
#pragma once
#include "norm.h"

// Sum of x^2 over a row.
template <typename T, uint V>
inline Fine<float> squares_of(Source<T, V> from, threadgroup float* partial, Lane at, Row row) {
  wide<float, V> squares = wide<float, V>(0.0f);
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    const wide<float, V> v = from.take(i);
    squares = fma(v, v, squares);
  }
  if (is_short<T>(at, row)) {
    const float x = at.lane < uint(row.width) ? from.single().peek(at.lane) : 0.0f;
    return fine(simd_added(added_product({0.0f, 0.0f}, x, x)));
  }
  return {group_sum(total(squares), partial, at), 0.0f};
}

// The rows of a result, and what they are made with.
template <typename T, typename W>
struct RmsResult {
  device const W* weight;
  device T* y;
  device float* power;
  float eps;
  bool has_weight;
  long width;

  RmsResult moved(long rows) const { return {weight, y + rows * width, power + rows, eps, has_weight, width}; }

  template <uint V>
  Fine<float> sums(Source<T, V> from, threadgroup float* partial, Lane at, Row row) const {
    return squares_of(from, partial, at, row);
  }

  // R rows that follow one another, which read the weight once.
  template <uint R, uint V>
  void write(thread const Fine<float>* squares, Source<T, V> from, Row row) const {
    using F = wide<float, V>;
    float r[R];
    _Pragma("clang loop unroll(full)")
    for (uint k = 0; k < R; k++) {
      const float s = variance(squares[k], 0.0f, 0.0f, row.width, eps);
      r[k] = inverse_root(s);
      if (row.lid == 0) {
        power[k] = s;
      }
    }
    for (uint i = row.lid; i < row.steps; i += row.group_size) {
      const F w = has_weight ? load<V>(weight, i) : F(1.0f);
      _Pragma("clang loop unroll(full)")
      for (uint k = 0; k < R; k++) {
        const F v = from.moved(k * width).again(i) * r[k];
        store<V>(y + k * width, i, has_weight ? v * w : v);
      }
    }
  }
};

// Which gradients are made, and of what.
struct RmsParts {
  bool has_weight;
  bool has_share;
  bool has_carry;
  bool is_exact;
};

// The rows of a gradient: what is read, and what is written.
template <typename T, typename W>
struct RmsGradient {
  device const T* g;
  device const T* x;
  device const T* carry;  // a gradient that is added to dx, where has_carry
  device const W* weight;
  device const float* power;
  device T* dx;
  device float* share;
  RmsParts has;
  long width;

  RmsGradient moved(long rows) const {
    const long by = rows * width;
    return {g + by, x + by, carry + by, weight, power + rows, dx + by, share, has, width};
  }

  // Sum of w g x over a row.
  template <uint V>
  float sums(threadgroup float* partial, Lane at, Row row) const {
    using F = wide<float, V>;
    F dots = F(0.0f);
    for (uint i = row.lid; i < row.steps; i += row.group_size) {
      F v = load<V>(g, i);
      if (has.has_weight) {
        v *= load<V>(weight, i);
      }
      dots = fma(v, load<V>(x, i), dots);
    }
    return group_sum(total(dots), partial, at);
  }

  template <uint V>
  void clear_shares(Row row) const {
    if (has.has_share) {
      clear<V>(share, row);
    }
  }

  // R rows of dx that follow one another, and their part of dw added to `share`.
  template <uint R, uint V>
  void write(threadgroup float* kept, threadgroup float* partial, Lane at, Row row) const {
    using F = wide<float, V>;
    float dots[R];
    gradient_sums<R, V>(*this, dots, kept, partial, at, row);
    float c[R];
    Fine<float> roots[R];
    float r[R];
    _Pragma("clang loop unroll(full)")
    for (uint k = 0; k < R; k++) {
      c[k] = dots[k] / row.width / power[k];
      roots[k] = fine_inverse_root(power[k]);
      r[k] = roots[k].value;
    }
    for (uint i = row.lid; i < row.steps; i += row.group_size) {
      Share<V> sum = {F(0.0f), F(0.0f), has.is_exact};
      const F w = has.has_weight ? load<V>(weight, i) : F(1.0f);
      _Pragma("clang loop unroll(full)")
      for (uint k = 0; k < R; k++) {
        const F gi = load<V>(g + k * width, i);
        const F xi = load<V>(x + k * width, i);
        if (has.has_share) {
          sum.add(gi, {F(r[k]), F(roots[k].rest)}, {xi, F(0.0f)});
        }
        F v;
        if (has.is_exact) {
          v = fma(-xi, F(c[k]), has.has_weight ? gi * w : gi) * r[k];
        } else {
          v = xi * (-c[k] * r[k]);
          v = has.has_weight ? fma(gi * r[k], w, v) : fma(gi, F(r[k]), v);
        }
        if (has.has_carry) {
          v += load<V>(carry + k * width, i);
        }
        store<V>(dx + k * width, i, v);
      }
      if (has.has_share) {
        store<V>(share, i, load<V>(share, i) + sum.result());
      }
    }
  }
};

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
};

// R rows that follow one another, which read the weight once.
template <uint R, uint V, typename T, typename W>
inline void rms_apply(thread const Fine<float>* squares, Source<T, V> from, RmsResult<T, W> to, Row row) {
  using F = wide<float, V>;
  float r[R];
  _Pragma("clang loop unroll(full)")
  for (uint k = 0; k < R; k++) {
    const float s = variance(squares[k], 0.0f, 0.0f, row.width, to.eps);
    r[k] = inverse_root(s);
    if (row.lid == 0) {
      to.power[k] = s;
    }
  }
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    const F w = to.has_weight ? load<V>(to.weight, i) : F(1.0f);
    _Pragma("clang loop unroll(full)")
    for (uint k = 0; k < R; k++) {
      const F v = from.moved(k * to.width).again(i) * r[k];
      store<V>(to.y + k * to.width, i, to.has_weight ? v * w : v);
    }
  }
}

// `count` rows, at most R. Their sums do not wait for one another, and a row is still near when it is read again.
// in_turn: they are written one after the other, which is best where they go past the cache.
template <uint R, uint V, typename T, typename W>
inline void rms_rows(Source<T, V> from, RmsResult<T, W> to, long count, bool in_turn, threadgroup Fine<float>* kept,
                     threadgroup float* partial, Lane at, Row row) {
  if (R == 1) {
    const Fine<float> one = squares_of(from, partial, at, row);
    rms_apply<1>(&one, from, to, row);
    return;
  }
  for (long k = 0; k < count; k++) {
    const Fine<float> one = squares_of(from.moved(k * to.width), partial, at, row);
    if (row.lid == 0) {
      kept[k] = one;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (count == R && !in_turn) {
    Fine<float> all[R];
    _Pragma("clang loop unroll(full)")
    for (uint k = 0; k < R; k++) {
      all[k] = kept[k];
    }
    rms_apply<R>(all, from, to, row);
    return;
  }
  _Pragma("clang loop unroll(disable)")
  for (long k = 0; k < count; k++) {
    const Fine<float> one = kept[k];
    rms_apply<1>(&one, from.moved(k * to.width), to.moved(k), row);
  }
}

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
};

// Sum of w g x over a row.
template <uint V, typename T, typename W>
inline float rms_dot(RmsGradient<T, W> of, threadgroup float* partial, Lane at, Row row) {
  using F = wide<float, V>;
  F dots = F(0.0f);
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    F v = load<V>(of.g, i);
    if (of.has.has_weight) {
      v *= load<V>(of.weight, i);
    }
    dots = fma(v, load<V>(of.x, i), dots);
  }
  return group_sum(total(dots), partial, at);
}

// R rows of dx that follow one another, and their part of dw added to `share`.
template <uint R, uint V, typename T, typename W>
inline void rms_gradient(RmsGradient<T, W> of, threadgroup float* kept, threadgroup float* partial, Lane at, Row row) {
  using F = wide<float, V>;
  float dots[R];
  if (R == 1) {
    dots[0] = rms_dot<V>(of, partial, at, row);
  } else {
    _Pragma("clang loop unroll(disable)")
    for (uint k = 0; k < R; k++) {
      const float one = rms_dot<V>(of.moved(k), partial, at, row);
      if (row.lid == 0) {
        kept[k] = one;
      }
    }
    hand_out<R>(kept, dots);
  }
  float c[R];
  Fine<float> roots[R];
  float r[R];
  _Pragma("clang loop unroll(full)")
  for (uint k = 0; k < R; k++) {
    c[k] = dots[k] / row.width / of.power[k];
    roots[k] = fine_inverse_root(of.power[k]);
    r[k] = roots[k].value;
  }
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    Share<V> sum = {F(0.0f), F(0.0f), of.has.is_exact};
    const F w = of.has.has_weight ? load<V>(of.weight, i) : F(1.0f);
    _Pragma("clang loop unroll(full)")
    for (uint k = 0; k < R; k++) {
      const F gi = load<V>(of.g + k * of.width, i);
      const F xi = load<V>(of.x + k * of.width, i);
      if (of.has.has_share) {
        sum.add(gi, {F(r[k]), F(roots[k].rest)}, {xi, F(0.0f)});
      }
      F v;
      if (of.has.is_exact) {
        v = fma(-xi, F(c[k]), of.has.has_weight ? gi * w : gi) * r[k];
      } else {
        v = xi * (-c[k] * r[k]);
        v = of.has.has_weight ? fma(gi * r[k], w, v) : fma(gi, F(r[k]), v);
      }
      if (of.has.has_carry) {
        v += load<V>(of.carry + k * of.width, i);
      }
      store<V>(of.dx + k * of.width, i, v);
    }
    if (of.has.has_share) {
      store<V>(of.share, i, load<V>(of.share, i) + sum.result());
    }
  }
}

// The rows of one block.
template <uint V, typename T, typename W>
inline void rms_gradients(RmsGradient<T, W> of, long first, long last, threadgroup float* kept,
                          threadgroup float* partial, Lane at, Row row) {
  if (of.has.has_share) {
    clear<V>(of.share, row);
  }
  for (; first + AtOnce<V>::rows <= last; first += AtOnce<V>::rows) {
    rms_gradient<AtOnce<V>::rows, V>(of.moved(first), kept, partial, at, row);
  }
  for (; AtOnce<V>::rows > 1 && first < last; first++) {
    rms_gradient<1, V>(of.moved(first), kept, partial, at, row);
  }
}

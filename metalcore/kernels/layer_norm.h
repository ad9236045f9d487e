// y = w (x - m) r + b,  m = mean(x),  r = 1 / sqrt(s),  s = mean((x - m)^2) + eps          (arXiv:1607.06450)
#pragma once
#include "norm.h"

// A value amid the row's: the mean of a short row, about the mean of the first part of a longer one. Every simdgroup
// finds it for itself. Values with few bits have squares with few bits, also around a mean of theirs, and a long sum of
// those is rounded the same way again and again: so it is tilted a little.
template <typename T, uint V>
inline float pivot_of(Source<T, V> from, Lane at, Row row) {
  using F = wide<float, V>;
  F sum = F(0.0f);
  if (row.steps < 128) {
    for (uint i = at.lane; i < row.steps; i += 32) {
      sum += from.peek(i);
    }
    return simd_sum(total(sum)) / row.width;
  }
  for (uint k = 0; k < 128; k += 32) {
    const F v = from.peek(k + at.lane);
    sum += fma(abs(v), F(0.0131f), v);
  }
  return simd_sum(total(sum)) / float(128 * V);
}

// Sums of x - pivot and of its square over a row.
struct Sums {
  float pivot;
  float sum;
  Fine<float> square;
};

// Of a row that is_short: with twice the digits.
template <typename T, uint V>
inline Sums short_sums(Source<T, V> from, Lane at, Row row) {
  const bool has = at.lane < uint(row.width);
  const float x = has ? from.single().peek(at.lane) : 0.0f;
  const float pivot = simd_sum(x) / row.width;
  const Fine<float> v = difference(x, pivot);
  ExactSum square = added_product({0.0f, 0.0f}, v.value, v.value);
  square.error += 2.0f * v.value * v.rest;
  const ExactSum none = {0.0f, 0.0f};
  const ExactSum sum = {v.value, v.rest};
  return {pivot, rounded(simd_added(has ? sum : none)), fine(simd_added(has ? square : none))};
}

// One pass is exact where the pivot is near the mean beside the spread; else there is a second one around the mean.
template <typename T, uint V>
inline Sums sums_of(Source<T, V> from, threadgroup float* partial, Lane at, Row row) {
  using F = wide<float, V>;
  const float pivot = pivot_of(from, at, row);
  F sums = F(0.0f);
  F squares = F(0.0f);
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    const F v = from.take(i) - pivot;
    sums += v;
    squares = fma(v, v, squares);
  }
  if (is_short<T>(at, row)) {
    return short_sums(from, at, row);
  }
  const Sums found = {pivot, group_sum(total(sums), partial, at), {group_sum(total(squares), partial, at), 0.0f}};
  if (!(found.sum * found.sum > 0.04f * row.width * found.square.value)) {
    return found;
  }
  const float mean = pivot + found.sum / row.width;
  sums = F(0.0f);
  squares = F(0.0f);
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    const F v = from.again(i) - mean;
    sums += v;
    squares = fma(v, v, squares);
  }
  return {mean, group_sum(total(sums), partial, at), {group_sum(total(squares), partial, at), 0.0f}};
}

// The mean is kept as rounded + rest: where a row's values nearly agree, a rounded mean alone would spoil x - m.
struct Moments {
  float mean;
  float rest;
  float s;
};

inline Moments moments_of(Sums found, float eps, Row row) {
  const float rest = found.sum / row.width;
  const float mean = found.pivot + rest;
  return {mean, rest - (mean - found.pivot), variance(found.square, rest, found.sum, row.width, eps)};
}

// What a row is multiplied and shifted by: y = ((x - from) r + shift) w + b.
struct Scale {
  float from;
  float r;
  float shift;
};

// Where the mean is small beside the spread, x r - m r has one rounding less than (x - m) r.
inline Scale scale_of(Moments of) {
  const float r = inverse_root(of.s);
  const float shift = -of.rest * r;
  const bool is_small = abs(of.mean * r) <= 1.0f;
  return {is_small ? 0.0f : of.mean, r, is_small ? fma(-of.mean, r, shift) : shift};
}

// The rows of a result, and what they are made with.
template <typename T, typename W>
struct LayerResult {
  device const W* weight;
  device const W* bias;
  device T* y;
  device float* moments;
  float eps;
  bool has_weight;
  bool has_bias;
  long width;

  LayerResult moved(long rows) const {
    return {weight, bias, y + rows * width, moments + 3 * rows, eps, has_weight, has_bias, width};
  }

  template <uint V>
  Sums sums(Source<T, V> from, threadgroup float* partial, Lane at, Row row) const {
    return sums_of(from, partial, at, row);
  }

  // R rows that follow one another, which read weight and bias once.
  template <uint R, uint V>
  void write(thread const Sums* all, Source<T, V> from, Row row) const {
    using F = wide<float, V>;
    Scale by[R];
    _Pragma("clang loop unroll(full)")
    for (uint k = 0; k < R; k++) {
      const Moments found = moments_of(all[k], eps, row);
      by[k] = scale_of(found);
      if (row.lid == 0) {
        moments[3 * k] = found.mean;
        moments[3 * k + 1] = found.rest;
        moments[3 * k + 2] = found.s;
      }
    }
    for (uint i = row.lid; i < row.steps; i += row.group_size) {
      const F w = has_weight ? load<V>(weight, i) : F(1.0f);
      const F b = has_bias ? load<V>(bias, i) : F(0.0f);
      _Pragma("clang loop unroll(full)")
      for (uint k = 0; k < R; k++) {
        F v = fma(from.moved(k * width).again(i) - by[k].from, F(by[k].r), F(by[k].shift));
        if (has_weight && has_bias) {
          v = fma(v, w, b);
        } else if (has_weight) {
          v *= w;
        } else if (has_bias) {
          v += b;
        }
        store<V>(y + k * width, i, v);
      }
    }
  }
};

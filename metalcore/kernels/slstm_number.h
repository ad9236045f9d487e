// What sLSTM computes with: floats, or pairs of floats where a problem is small. Of few results plain torch's error may
// happen to be near nothing, and a recurrence hands its own on. Functions of pairs have errors of 2^-29 and less.
#pragma once
#include "activation.h"
#include "float_float_exp.h"

// E floats make a number.
template <uint E>
struct NumberOf {
  using type = float;
};
template <>
struct NumberOf<2> {
  using type = FloatFloat;
};
template <uint E>
using number = typename NumberOf<E>::type;

// Arrays of numbers are two arrays of floats; of plain numbers the second is not touched.
template <typename P>
inline void get(thread float& value, P high, P low, ulong at) {
  value = high[at];
}
template <typename P>
inline void get(thread FloatFloat& value, P high, P low, ulong at) {
  value = {high[at], low[at]};
}
template <typename P>
inline void put(float value, P high, P low, ulong at) {
  high[at] = value;
}
template <typename P>
inline void put(FloatFloat value, P high, P low, ulong at) {
  high[at] = value.high;
  low[at] = value.low;
}

inline float nearest(float a) { return a; }
inline float nearest(FloatFloat a) { return a.high; }
inline float choose(bool is_first, float a, float b) { return is_first ? a : b; }
inline FloatFloat choose(bool is_first, FloatFloat a, FloatFloat b) {
  return {is_first ? a.high : b.high, is_first ? a.low : b.low};
}
// Sums of what may be infinite.
inline float safe_sum(float a, float b) { return a + b; }
inline FloatFloat safe_sum(FloatFloat a, FloatFloat b) { return finite_sum(a, b); }

constant constexpr uint TERMS = 16;  // of a sum at a time, so that it has fewer roundings

// sums[r] += sum over k of left[r * count + k] column[k * count]. Those of pairs are values and what they lost.
template <uint ROWS, typename T>
inline void add_products(
    thread float* sums,
    threadgroup const float* left,
    threadgroup const float* left_low,
    device const T* column,
    uint count) {
  for (uint from = 0; from < count; from += TERMS) {
    float parts[ROWS];
#pragma unroll
    for (uint r = 0; r < ROWS; ++r) {
      parts[r] = 0.0f;
    }
    const uint to = min(from + TERMS, count);
    for (uint k = from; k < to; ++k) {
      const float weight = float(column[k * count]);
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) {
        parts[r] = fma(left[r * count + k], weight, parts[r]);
      }
    }
#pragma unroll
    for (uint r = 0; r < ROWS; ++r) {
      sums[r] += parts[r];
    }
  }
}
template <uint ROWS, typename T>
inline void add_products(
    thread FloatFloat* sums,
    threadgroup const float* left,
    threadgroup const float* left_low,
    device const T* column,
    uint count) {
  for (uint k = 0; k < count; ++k) {
    const float weight = float(column[k * count]);
#pragma unroll
    for (uint r = 0; r < ROWS; ++r) {
      const FloatFloat product = two_product(left[r * count + k], weight), next = two_sum(sums[r].high, product.high);
      sums[r] = {next.high, sums[r].low + fma(left_low[r * count + k], weight, next.low + product.low)};
    }
  }
}

// The sum and two more terms.
inline float finished(float sum, float a, float b) { return (sum + a) + b; }
inline FloatFloat finished(FloatFloat sum, float a, float b) {
  const FloatFloat more = two_sum(a, b), next = two_sum(sum.high, more.high);
  return finite_pair(next.high, sum.low + more.low + next.low);
}

// e^-x for x >= 0
inline float small_exp(float x) { return exp_minus(x); }

// log(1 + e) for e in 0..1, by 2 atanh(s) with s = e / (2 + e): so it keeps its digits where e is small
inline float log_one_plus(float e) {
#ifdef METALCORE_DOUBLE
  const float near = 1.0f + e;
  return log(near) + (e - (near - 1.0f)) / near;
#else
  const float s = e / (2.0f + e), z = s * s;
  float p = fma(z, 0.076923077f, 0.090909091f);
  p = fma(z, p, 0.11111111f);
  p = fma(z, p, 0.14285714f);
  p = fma(z, p, 0.2f);
  p = fma(z, p, 0.33333333f);
  return 2.0f * fma(z * s, p, s);
#endif
}

inline float bounded_tanh(float x) { return tanh(x > 20.0f ? 20.0f : x < -20.0f ? -20.0f : x); }  // a NaN stays

#ifndef METALCORE_DOUBLE
inline FloatFloat small_exp(FloatFloat x) { return exp_of(-x); }

inline FloatFloat bounded_tanh(FloatFloat x) {
  const bool is_negative = x.high < 0.0f;
  const FloatFloat size = choose(is_negative, -x, x), e = small_exp({2.0f * size.high, 2.0f * size.low});
  const FloatFloat large = (from_float(1.0f) - e) / (e + 1.0f);
  const float z = size.high * size.high;
  float p = fma(z, 3.5921280e-3f, -8.8632355e-3f);  // below 1/4 by the series, so that small ones keep their digits
  p = fma(z, p, 2.1869489e-2f);
  p = fma(z, p, -5.3968254e-2f);
  p = fma(z, p, 1.3333333e-1f);
  p = fma(z, p, -3.3333333e-1f);
  const FloatFloat found = choose(size.high < 0.25f, size + size.high * z * p, large);
  return choose(is_negative, -found, found);
}
#endif

// sigmoid(x), 1 - sigmoid(x), and the logarithm of the first
template <typename N>
struct Sigmoid {
  N value;
  N rest;
  N log;
};

template <typename N>
inline Sigmoid<N> sigmoid_parts(N x) {
  const bool is_negative = nearest(x) < 0.0f;
  const N e = small_exp(choose(is_negative, -x, x)), large = N{1.0f} / (e + 1.0f), small = e * large;
  const N below = choose(is_negative, x, N{0.0f});
  return {choose(is_negative, small, large), choose(is_negative, large, small), safe_sum(below, -log_one_plus(e))};
}

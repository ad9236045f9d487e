// Stochastic rounding: up or down to a neighbour by chance, so that the mean is the value itself.
// The random bits are a function of key and index alone: Philox 2x32, 7 rounds (doi:10.1145/2063384.2063405).
#pragma once
#include <metal_stdlib>
using namespace metal;

inline uint random_bits(uint key, uint low, uint high) {
  for (int i = 0; i < 7; i++) {
    const uint product = low * 0xD256D193u;
    low = mulhi(low, 0xD256D193u) ^ key ^ high;
    high = product;
    key += 0x9E3779B9u;
  }
  return low;
}

inline float round_stochastic(float x, uint, float) { return x; }

#ifndef METALCORE_DOUBLE
// What is not finite, or near the end of the range, is rounded to the nearest as usual.
inline bfloat round_stochastic(float x, uint random, bfloat) {
  const uint bits = (as_type<uint>(x) + (random & 0xFFFFu)) & 0xFFFF0000u;
  return bfloat(abs(x) < 3.3895e38f ? as_type<float>(bits) : x);
}

inline half round_stochastic(float x, uint random, half) {
  const uint bits = (as_type<uint>(x) + (random & 0x1FFFu)) & 0xFFFFE000u;
  const float tiny = floor(fma(x, 0x1p24f, float(random >> 8) * 0x1p-24f)) * 0x1p-24f;  // below 2^-14: steps of 2^-24
  const float rounded = abs(x) < 0x1p-14f ? tiny : as_type<float>(bits);
  return half(abs(x) < 65504.0f ? rounded : x);
}
#endif

// Vectors that the 32 threads of a simdgroup share: thread `lane` has the elements lane, lane + 32, ...
#pragma once
#include "linalg/svd.h"

template <typename T>
inline float svd_dot(device const T* a, device const T* b, uint begin, uint length, uint lane) {
  float dot = 0;
  for (uint i = begin + lane; i < length; i += 32) {
    dot += a[i] * b[i];
  }
  return simd_sum(dot);
}

template <typename T>
inline float svd_largest(device const T* a, uint begin, uint length, uint lane) {
  float largest = 0;
  for (uint i = begin + lane; i < length; i += 32) {
    largest = max(largest, fabs(a[i]));
  }
  return simd_max(largest);
}

// Another scale for a vector whose square is out of range; its new square is returned.
template <typename T>
inline float svd_rescale(device T* a, thread float& scale, uint begin, uint length, uint lane) {
  const float power = svd_power(svd_largest(a, begin, length, lane));
  float square = 0;
  for (uint i = begin + lane; i < length; i += 32) {
    const float value = a[i] * power;
    a[i] = value;
    square += value * value;
  }
  scale /= power;
  return simd_sum(square);
}

// The place of the largest of sizes[begin] ... sizes[length - 1], the first of equal ones; `begin` where all are NaN.
template <typename T>
inline uint svd_place(device const T* sizes, uint begin, uint length, uint lane) {
  float best = -1;
  uint at = begin;
  for (uint i = begin + lane; i < length; i += 32) {
    const float size = fabs(sizes[i]);
    at = size > best ? i : at;
    best = size > best ? size : best;
  }
  const float largest = simd_max(best);
  return simd_min(best == largest ? at : ~0u);
}

// Two vectors are turned.
template <typename T>
inline void svd_turn_vectors(device T* a, device T* b, float less, float for_a, float for_b, uint length, uint lane) {
  for (uint i = lane; i < length; i += 32) {
    float x = a[i], y = b[i];
    svd_apply(x, y, less, for_a, for_b);
    a[i] = x;
    b[i] = y;
  }
}

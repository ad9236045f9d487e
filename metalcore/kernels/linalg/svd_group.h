// Vectors that the 32 threads of a simdgroup share. Elements are taken 32 at a time, all lanes at once, so that a CPU needs
// a mask for the rest alone.
#pragma once
#include "linalg/pitch.h"
#include "linalg/svd.h"

template <typename T>
inline float svd_dot(device const T* a, device const T* b, uint begin, uint length, uint lane) {
  float dot = 0;
  uint i = begin;
  for (; i + WIDTH <= length; i += WIDTH) {
    dot += a[i + lane] * b[i + lane];
  }
  if (i + lane < length) {
    dot += a[i + lane] * b[i + lane];
  }
  return simd_sum(dot);
}

template <typename T>
inline float svd_largest(device const T* a, uint begin, uint length, uint lane) {
  float largest = 0;
  for (uint i = begin + lane; i < length; i += WIDTH) {
    largest = max(largest, fabs(a[i]));
  }
  return simd_max(largest);
}

// Another scale for a vector whose square is out of range; its new square is returned.
template <typename T>
inline float svd_rescale(device T* a, thread float& scale, uint begin, uint length, uint lane) {
  const float power = svd_rescaling(svd_largest(a, begin, length, lane), scale);
  float square = 0;
  for (uint i = begin + lane; i < length; i += WIDTH) {
    const float value = a[i] * power;
    a[i] = value;
    square += value * value;
  }
  return simd_sum(square);
}

// The place of the largest of sizes[begin] ... sizes[length - 1], the first of equal ones; `begin` where all are NaN.
template <typename T>
inline uint svd_place(device const T* sizes, uint begin, uint length, uint lane) {
  float best = -1;
  uint at = begin;
  for (uint i = begin + lane; i < length; i += WIDTH) {
    const float size = fabs(sizes[i]);
    at = size > best ? i : at;
    best = size > best ? size : best;
  }
  const float largest = simd_max(best);
  return simd_min(best == largest ? at : ~0u);
}

// Two vectors are turned; `length` is a multiple of 32.
template <typename T>
inline void svd_turn_vectors(device T* a, device T* b, float less, float for_a, float for_b, uint length, uint lane) {
  for (uint i = 0; i < length; i += WIDTH) {
    float x = a[i + lane], y = b[i + lane];
    svd_apply(x, y, less, for_a, for_b);
    a[i + lane] = x;
    b[i + lane] = y;
  }
}

// a - part v from element `begin` on; the sum of its squares, the first one's not counted, is returned.
template <typename T>
inline float svd_subtract(device T* a, device const T* v, float part, uint begin, uint length, uint lane) {
  float squares = 0;
  uint i = begin;
  for (; i + WIDTH <= length; i += WIDTH) {
    const float value = a[i + lane] - v[i + lane] * part;
    a[i + lane] = value;
    squares += i + lane == begin ? 0.0f : value * value;
  }
  if (i + lane < length) {
    const float value = a[i + lane] - v[i + lane] * part;
    a[i + lane] = value;
    squares += i + lane == begin ? 0.0f : value * value;
  }
  return simd_sum(squares);
}

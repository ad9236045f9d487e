// Row operations, one threadgroup a row.
//   rms_norm    y = w x / sqrt(mean(x^2) + eps)                 (arXiv:1910.07467)
//   layer_norm  y = w (x - mean) / sqrt(variance + eps) + b     (arXiv:1607.06450), variance of the differences
//   softmax     y = e^(x - max) / sum e^(x - max)
#include "group.h"

kernel void rms_norm(
    device const float* x [[buffer(0)]],
    device const float* w [[buffer(1)]],
    device float* y [[buffer(2)]],
    constant uint& columns [[buffer(3)]],
    constant float& eps [[buffer(4)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  x += row * columns;
  y += row * columns;

  float squares = 0;
  for (uint i = lid; i < columns; i += group_size) {
    squares += x[i] * x[i];
  }
  const float scale = rsqrt(group_sum(squares, partial, at) / columns + eps);
  for (uint i = lid; i < columns; i += group_size) {
    y[i] = w[i] * (x[i] * scale);
  }
}

kernel void layer_norm(
    device const float* x [[buffer(0)]],
    device const float* w [[buffer(1)]],
    device const float* b [[buffer(2)]],
    device float* y [[buffer(3)]],
    constant uint& columns [[buffer(4)]],
    constant float& eps [[buffer(5)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  x += row * columns;
  y += row * columns;

  float sum = 0;
  for (uint i = lid; i < columns; i += group_size) {
    sum += x[i];
  }
  const float mean = group_sum(sum, partial, at) / columns;

  float squares = 0;
  for (uint i = lid; i < columns; i += group_size) {
    const float d = x[i] - mean;
    squares += d * d;
  }
  const float scale = rsqrt(group_sum(squares, partial, at) / columns + eps);
  for (uint i = lid; i < columns; i += group_size) {
    y[i] = (x[i] - mean) * scale * w[i] + b[i];
  }
}

kernel void softmax(
    device const float* x [[buffer(0)]],
    device float* y [[buffer(1)]],
    constant uint& columns [[buffer(2)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  x += row * columns;
  y += row * columns;

  float largest = -INFINITY;
  for (uint i = lid; i < columns; i += group_size) {
    largest = max(largest, x[i]);
  }
  largest = group_max(largest, partial, at);

  float sum = 0;
  for (uint i = lid; i < columns; i += group_size) {
    const float e = exp(x[i] - largest);
    y[i] = e;
    sum += e;
  }
  const float scale = 1.0f / group_sum(sum, partial, at);
  for (uint i = lid; i < columns; i += group_size) {
    y[i] *= scale;
  }
}

// Sums over a threadgroup for rms_norm.metal and layer_norm.metal, which MLX's wheel does not bring.
#pragma once

#include "instantiate.h"

template <int N = 1>
inline void sum_over_group(thread float* v, threadgroup float* partial, uint lane, uint simd) {
  for (int j = 0; j < N; j++) v[j] = simd_sum(v[j]);
  if (N > 1) threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd == 0) {
    for (int j = 0; j < N; j++) partial[32 * j + lane] = 0;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 0) {
    for (int j = 0; j < N; j++) partial[32 * j + simd] = v[j];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int j = 0; j < N; j++) v[j] = simd_sum(partial[32 * j + lane]);
}

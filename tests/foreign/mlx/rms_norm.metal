// y = w x / sqrt(mean(x^2) + eps), a row a threadgroup, in the forms of MLX's rms_norm.metal: one kernel for rows that a
// group reads at once and one that loops, a weight that a function constant turns on.
#include "norms.h"

constant bool has_weight [[function_constant(20)]];

template <typename T, int N = RMS_N_READS>
[[kernel]] void rms_single(
    const device T* x,
    const device T* w,
    device T* out,
    constant float& eps,
    constant uint& size,
    constant uint& w_stride,
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd [[simdgroup_index_in_threadgroup]]) {
  constexpr int SIMD_SIZE = 32;
  threadgroup float partial[SIMD_SIZE];
  x += row * size_t(size) + lid * N;
  w += w_stride * lid * N;
  out += row * size_t(size) + lid * N;
  const int count = min(int(N), int(size) - int(lid * N));
  float sum = 0, kept[N] = {0};
  for (int j = 0; j < count; j++) {
    kept[j] = x[j];
    sum += kept[j] * kept[j];
  }
  sum_over_group(&sum, partial, lane, simd);
  const float scale = metal::precise::rsqrt(sum / size + eps);
  for (int j = 0; j < count; j++) out[j] = has_weight ? T(w[w_stride * j] * T(kept[j] * scale)) : T(kept[j] * scale);
}

template <typename T, int N = RMS_N_READS>
[[kernel]] void rms_looped(
    const device T* x,
    const device T* w,
    device T* out,
    constant float& eps,
    constant uint& size,
    constant uint& w_stride,
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[32];
  threadgroup float shared_scale[1];
  x += row * size_t(size);
  out += row * size_t(size);
  float sum = 0;
  for (uint from = lid * N; from < size; from += group * N) {
    for (int j = 0; j < N && from + j < size; j++) sum += float(x[from + j]) * float(x[from + j]);
  }
  sum_over_group(&sum, partial, lane, simd);
  if (lid == 0) shared_scale[0] = metal::precise::rsqrt(sum / size + eps);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint from = lid * N; from < size; from += group * N) {
    for (int j = 0; j < N && from + j < size; j++) {
      const T y = static_cast<T>(x[from + j] * shared_scale[0]);
      out[from + j] = has_weight ? T(w[w_stride * (from + j)] * y) : y;
    }
  }
}

#define make_rms(name, type)                                \
  instantiate_kernel("rms" #name, rms_single, type)         \
  instantiate_kernel("rms_looped" #name, rms_looped, type)

each_float(make_rms)

// y = w (x - mean) / sqrt(var + eps) + b, a row a threadgroup, in the forms of MLX's layer_norm.metal: several sums at
// once in one threadgroup array, and the gradient of x beside it.
#include "norms.h"

template <typename T, int N = RMS_N_READS>
[[kernel]] void layer_norm_single(
    const device T* x,
    const device T* w,
    const device T* b,
    device T* out,
    constant float& eps,
    constant uint& size,
    constant uint& w_stride,
    constant uint& b_stride,
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[32] = {0};
  x += row * size_t(size) + lid * N;
  out += row * size_t(size) + lid * N;
  const int count = min(int(N), int(size) - int(lid * N));
  float kept[N] = {0}, mean = 0, var = 0;
  for (int j = 0; j < count; j++) mean += kept[j] = x[j];
  sum_over_group(&mean, partial, lane, simd);
  mean /= size;
  for (int j = 0; j < count; j++) {
    kept[j] -= mean;
    var += kept[j] * kept[j];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum_over_group(&var, partial, lane, simd);
  const float scale = metal::precise::rsqrt(var / size + eps);
  for (int j = 0; j < count; j++) {
    const uint at = lid * N + j;
    out[j] = T(w[w_stride * at] * T(kept[j] * scale)) + b[b_stride * at];
  }
}

// dx = scale (g w - mean(g w) - h mean(g w h)) with h = (x - mean) scale
template <typename T, int N = RMS_N_READS>
[[kernel]] void layer_norm_gradient(
    const device T* x,
    const device T* w,
    const device T* g,
    device T* dx,
    constant float& eps,
    constant uint& size,
    constant uint& w_stride,
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd [[simdgroup_index_in_threadgroup]]) {
  constexpr int SIMD_SIZE = 32;
  threadgroup float partial[3 * SIMD_SIZE];
  x += row * size_t(size);
  g += row * size_t(size);
  dx += row * size_t(size);
  float mean = 0, sums[3] = {0};
  for (uint at = lid; at < size; at += group) mean += x[at];
  sum_over_group(&mean, partial, lane, simd);
  mean /= size;
  for (uint at = lid; at < size; at += group) {
    const float h = x[at] - mean, gw = float(g[at]) * float(w[w_stride * at]);
    sums[0] += gw;
    sums[1] += gw * h;
    sums[2] += h * h;
  }
  sum_over_group<3>(sums, partial, lane, simd);
  const float scale = metal::precise::rsqrt(sums[2] / size + eps);
  for (uint at = lid; at < size; at += group) {
    const float h = (x[at] - mean) * scale, gw = float(g[at]) * float(w[w_stride * at]);
    dx[at] = static_cast<T>(scale * (gw - sums[0] / size - h * sums[1] * scale / size));
  }
}

#define make_layer_norm(name, type)                                    \
  instantiate_kernel("layer_norm" #name, layer_norm_single, type)      \
  instantiate_kernel("vjp_layer_norm" #name, layer_norm_gradient, type)

each_float(make_layer_norm)

// y = w x r,  r = 1 / sqrt(mean(x^2) + eps)                     (arXiv:1910.07467)
// dx = r (w g - x r^2 mean(w g x)),  dw = sum over rows of g x r
#include "group.h"
#include "wide.h"

constant bool has_weight [[function_constant(0)]];

// One threadgroup a row. W: type of the weight, V: elements a thread takes at once.
template <typename T, typename W, uint V>
[[kernel]] void rms_norm_forward(
    device const T* x [[buffer(0)]],
    device const W* weight [[buffer(1)]],
    device T* y [[buffer(2)]],
    device float* scale [[buffer(3)]],
    constant long& width [[buffer(4)]],
    constant float& eps [[buffer(5)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  using F = wide<float, V>;
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint steps = uint(width) / V;
  x += row * width;
  y += row * width;

  F squares = F(0.0f);
  for (uint i = lid; i < steps; i += group_size) {
    const F v = load<V>(x, i);
    squares += v * v;
  }
  const float r = 1.0f / sqrt(group_sum(total(squares), partial, at) / float(width) + eps);  // rsqrt is less exact
  for (uint i = lid; i < steps; i += group_size) {
    F v = load<V>(x, i) * r;
    if (has_weight) {
      v *= load<V>(weight, i);
    }
    store<V>(y, i, v);
  }
  if (lid == 0) {
    scale[row] = r;
  }
}

// One threadgroup takes `rows_each` rows and adds up its share of dw in its row of `shares`.
template <typename T, typename W, uint V>
[[kernel]] void rms_norm_backward(
    device const T* g [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device const W* weight [[buffer(2)]],
    device const float* scale [[buffer(3)]],
    device T* dx [[buffer(4)]],
    device float* shares [[buffer(5)]],
    constant long& rows [[buffer(6)]],
    constant long& width [[buffer(7)]],
    constant long& rows_each [[buffer(8)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  using F = wide<float, V>;
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint steps = uint(width) / V;
  const long first = block * rows_each;
  const long last = min(first + rows_each, rows);
  shares += block * width;

  for (long row = first; row < last; row++) {
    device const T* x_row = x + row * width;
    device const T* g_row = g + row * width;
    const float r = scale[row];
    F dots = F(0.0f);
    for (uint i = lid; i < steps; i += group_size) {
      F v = load<V>(g_row, i) * load<V>(x_row, i);
      if (has_weight) {
        v *= load<V>(weight, i);
      }
      dots += v;
    }
    const float c = group_sum(total(dots), partial, at) / float(width) * r * r;
    for (uint i = lid; i < steps; i += group_size) {
      const F gi = load<V>(g_row, i);
      const F xi = load<V>(x_row, i);
      F v = gi;
      if (has_weight) {
        v *= load<V>(weight, i);
        const F share = gi * xi * r;
        store<V>(shares, i, row == first ? share : load<V>(shares, i) + share);
      }
      store<V>(dx + row * width, i, fma(-xi, F(c), v) * r);
    }
  }
}

// Mean 0 and variance 1 of a row: formulas in layer_norm.h and layer_norm_gradient.h.
#include "layer_norm.h"
#include "layer_norm_gradient.h"

constant bool has_weight [[function_constant(0)]];
constant bool has_bias [[function_constant(1)]];
constant bool has_weight_share [[function_constant(2)]];
constant bool has_bias_share [[function_constant(3)]];
constant bool is_exact [[function_constant(4)]];  // gradients of short rows, and of few

// One threadgroup takes AtOnce<V>::rows rows. W: type of weight and bias, V: elements a thread takes at once.
template <typename T, typename W, uint V>
[[kernel]] void layer_norm_forward(
    device const T* x [[buffer(0)]],
    device const W* weight [[buffer(1)]],
    device const W* bias [[buffer(2)]],
    device T* y [[buffer(3)]],
    device float* moments [[buffer(4)]],
    constant long& rows [[buffer(5)]],
    constant long& width [[buffer(6)]],
    constant float& eps [[buffer(7)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup Sums kept[AtOnce<V>::rows];
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const Row here = {lid, group_size, uint(width) / V, float(width)};
  const Source<T, V> from = {x, nullptr, nullptr, false};
  const long first = block * long(AtOnce<V>::rows);
  const long count = min(rows - first, long(AtOnce<V>::rows));
  const LayerResult<T, W> to = {weight, bias, y, moments, eps, has_weight, has_bias, width};
  norm_rows<AtOnce<V>::rows>(
      from.moved(first * width), to.moved(first), count, is_large<T>(rows, width), kept, partial, at, here);
}

// One threadgroup takes `rows_each` rows and adds up its shares of dw and db in its row of the shares.
template <typename T, typename W, uint V>
[[kernel]] void layer_norm_backward(
    device const T* g [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device const W* weight [[buffer(2)]],
    device const float* moments [[buffer(3)]],
    device T* dx [[buffer(4)]],
    device float* weight_shares [[buffer(5)]],
    device float* bias_shares [[buffer(6)]],
    constant long& rows [[buffer(7)]],
    constant long& width [[buffer(8)]],
    constant long& rows_each [[buffer(9)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup LayerDots kept[AtOnce<V>::rows];
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const Row here = {lid, group_size, uint(width) / V, float(width)};
  const LayerParts has = {has_weight, has_weight_share, has_bias_share, false, is_exact};
  const long first = block * rows_each;
  const long last = min(first + rows_each, rows);
  const long from = block * width;
  const LayerGradient<T, W> of = {
      g, x, g, weight, moments, dx, weight_shares + from, bias_shares + from, has, width};
  norm_gradients<V>(of, first, last, kept, partial, at, here);
}

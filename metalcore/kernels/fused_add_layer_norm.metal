// h = x + residual, rounded to the type of memory; y is the layer norm of h: formulas in layer_norm.h, of the gradients in
// layer_norm_gradient.h.
// dx = dresidual = the norm's gradient + the gradient that comes in for h.
#include "layer_norm.h"
#include "layer_norm_gradient.h"

constant bool has_bias [[function_constant(0)]];
constant bool has_weight_share [[function_constant(1)]];
constant bool has_bias_share [[function_constant(2)]];
constant bool is_exact [[function_constant(3)]];  // gradients of short rows, and of few

// One threadgroup takes AtOnce<V>::rows rows. W: type of weight and bias, V: elements a thread takes at once.
template <typename T, typename W, uint V>
[[kernel]] void fused_add_layer_norm_forward(
    device const T* x [[buffer(0)]],
    device const T* residual [[buffer(1)]],
    device const W* weight [[buffer(2)]],
    device const W* bias [[buffer(3)]],
    device T* y [[buffer(4)]],
    device T* h [[buffer(5)]],
    device float* moments [[buffer(6)]],
    constant long& rows [[buffer(7)]],
    constant long& width [[buffer(8)]],
    constant float& eps [[buffer(9)]],
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
  const Source<T, V> from = {x, residual, h, true};
  const long first = block * long(AtOnce<V>::rows);
  const long count = min(rows - first, long(AtOnce<V>::rows));
  const LayerResult<T, W> to = {weight, bias, y, moments, eps, true, has_bias, width};
  norm_rows<AtOnce<V>::rows>(
      from.moved(first * width), to.moved(first), count, is_large<T>(rows, width), kept, partial, at, here);
}

// One threadgroup takes `rows_each` rows and adds up its shares of dw and db in its row of the shares.
template <typename T, typename W, uint V>
[[kernel]] void fused_add_layer_norm_backward(
    device const T* g [[buffer(0)]],
    device const T* carry [[buffer(1)]],
    device const T* h [[buffer(2)]],
    device const W* weight [[buffer(3)]],
    device const float* moments [[buffer(4)]],
    device T* dx [[buffer(5)]],
    device float* weight_shares [[buffer(6)]],
    device float* bias_shares [[buffer(7)]],
    constant long& rows [[buffer(8)]],
    constant long& width [[buffer(9)]],
    constant long& rows_each [[buffer(10)]],
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
  const LayerParts has = {true, has_weight_share, has_bias_share, true, is_exact};
  const long first = block * rows_each;
  const long last = min(first + rows_each, rows);
  const long from = block * width;
  const LayerGradient<T, W> of = {
      g, h, carry, weight, moments, dx, weight_shares + from, bias_shares + from, has, width};
  norm_gradients<V>(of, first, last, kept, partial, at, here);
}

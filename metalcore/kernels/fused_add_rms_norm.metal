// h = x + residual, rounded to the type of memory; y is the root mean square norm of h: formulas in rms_norm.h.
// dx = dresidual = the norm's gradient + the gradient that comes in for h.
#include "rms_norm.h"

constant bool has_share [[function_constant(0)]];
constant bool is_exact [[function_constant(1)]];  // gradients of short rows, and of few

// One threadgroup takes AtOnce<V>::rows rows. W: type of the weight, V: elements a thread takes at once.
template <typename T, typename W, uint V>
[[kernel]] void fused_add_rms_norm_forward(
    device const T* x [[buffer(0)]],
    device const T* residual [[buffer(1)]],
    device const W* weight [[buffer(2)]],
    device T* y [[buffer(3)]],
    device T* h [[buffer(4)]],
    device float* power [[buffer(5)]],
    constant long& rows [[buffer(6)]],
    constant long& width [[buffer(7)]],
    constant float& eps [[buffer(8)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup Fine<float> kept[AtOnce<V>::rows];
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const Row here = {lid, group_size, uint(width) / V, float(width)};
  const Source<T, V> from = {x, residual, h, true};
  const long first = block * long(AtOnce<V>::rows);
  const long count = min(rows - first, long(AtOnce<V>::rows));
  const RmsResult<T, W> to = {weight, y, power, eps, true, width};
  norm_rows<AtOnce<V>::rows>(
      from.moved(first * width), to.moved(first), count, is_large<T>(rows, width), kept, partial, at, here);
}

// One threadgroup takes `rows_each` rows and adds up its share of dw in its row of `shares`.
template <typename T, typename W, uint V>
[[kernel]] void fused_add_rms_norm_backward(
    device const T* g [[buffer(0)]],
    device const T* carry [[buffer(1)]],
    device const T* h [[buffer(2)]],
    device const W* weight [[buffer(3)]],
    device const float* power [[buffer(4)]],
    device T* dx [[buffer(5)]],
    device float* shares [[buffer(6)]],
    constant long& rows [[buffer(7)]],
    constant long& width [[buffer(8)]],
    constant long& rows_each [[buffer(9)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float kept[AtOnce<V>::rows];
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const Row here = {lid, group_size, uint(width) / V, float(width)};
  const long first = block * rows_each;
  const long last = min(first + rows_each, rows);
  const RmsParts has = {true, has_share, true, is_exact};
  const RmsGradient<T, W> of = {g, h, carry, weight, power, dx, shares + block * width, has, width};
  norm_gradients<V>(of, first, last, kept, partial, at, here);
}

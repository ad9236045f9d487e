// softmax of rows (softmax_rows.h) and of columns (softmax_columns.h), and their gradients.
#include "softmax_columns.h"
#include "softmax_rows.h"

constant bool has_mask [[function_constant(0)]];
constant bool mask_walks [[function_constant(1)]];  // the mask changes along the reduced dimension
constant bool is_causal [[function_constant(2)]];
constant bool query_walks [[function_constant(3)]];  // the reduced dimension is that of the queries
constant bool keeps_row [[function_constant(4)]];    // exponentials are kept in threadgroup memory: at most KEPT

// One threadgroup a row. O: type of the result, M: of the mask, V: elements a thread takes at once.
template <typename T, typename O, typename M, uint V>
[[kernel]] void softmax_rows(
    device const T* x [[buffer(0)]],
    device const M* mask [[buffer(1)]],
    device O* y [[buffer(2)]],
    constant long& width [[buffer(3)]],
    constant long& queries [[buffer(4)]],
    constant long& size1 [[buffer(5)]],
    constant long& size2 [[buffer(6)]],
    constant long& size3 [[buffer(7)]],
    constant long& step0 [[buffer(8)]],
    constant long& step1 [[buffer(9)]],
    constant long& step2 [[buffer(10)]],
    constant long& step3 [[buffer(11)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  threadgroup float4 kept[KEPT / 4];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  Mask<M> here = {mask, has_mask, mask_walks};
  if (has_mask) {
    here.at += place(row, spread(size1, size2, size3, step0, step1, step2, step3));
  }
  const Reach reach = {lid, group_size, seen(row, queries, width, is_causal) / V};
  const long from = row * width;
  softmax_row<false, V>(
      x + from, here, y + from, uint(width) / V, is_causal, keeps_row ? kept : nullptr, partial, at, reach);
}

template <typename T, typename O, uint V>
[[kernel]] void softmax_rows_backward(
    device const O* g [[buffer(0)]],
    device const O* y [[buffer(1)]],
    device T* dx [[buffer(2)]],
    constant long& width [[buffer(3)]],
    constant long& queries [[buffer(4)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const Reach reach = {lid, group_size, seen(row, queries, width, is_causal) / V};
  const long from = row * width;
  softmax_row_gradient<false, V>(g + from, y + from, dx + from, uint(width) / V, is_causal, partial, at, reach);
}

// One thread a column of n elements that lie `inner` apart; grid: columns, then what is in front of them.
template <typename T, typename O, typename M>
[[kernel]] void softmax_columns(
    device const T* x [[buffer(0)]],
    device const M* mask [[buffer(1)]],
    device O* y [[buffer(2)]],
    constant long& n [[buffer(3)]],
    constant long& inner [[buffer(4)]],
    constant long& queries [[buffer(5)]],
    constant long& keys [[buffer(6)]],
    constant long& size1 [[buffer(7)]],
    constant long& size2 [[buffer(8)]],
    constant long& size3 [[buffer(9)]],
    constant long& step0 [[buffer(10)]],
    constant long& step1 [[buffer(11)]],
    constant long& step2 [[buffer(12)]],
    constant long& step3 [[buffer(13)]],
    constant long& mask_stride [[buffer(14)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group_size [[threads_per_threadgroup]]) {
  const uint c = group.x * group_size.x + lid.x;
  if (c >= uint(inner)) {
    return;
  }
  const ulong from = group.y * ulong(n) * ulong(inner);
  Column<T, M> column = {x + from + c, mask, ulong(n), ulong(inner), ulong(mask_stride), 0, has_mask, is_causal};
  if (has_mask) {
    column.mask += place(group.y * ulong(inner) + c, spread(size1, size2, size3, step0, step1, step2, step3));
  }
  if (is_causal) {
    column.first = first_seen(c, ulong(n), queries, keys, query_walks);
  }
  softmax_column<false>(column, y + from + c);
}

template <typename T, typename O>
[[kernel]] void softmax_columns_backward(
    device const O* g [[buffer(0)]],
    device const O* y [[buffer(1)]],
    device T* dx [[buffer(2)]],
    constant long& n [[buffer(3)]],
    constant long& inner [[buffer(4)]],
    constant long& queries [[buffer(5)]],
    constant long& keys [[buffer(6)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group_size [[threads_per_threadgroup]]) {
  const uint c = group.x * group_size.x + lid.x;
  if (c >= uint(inner)) {
    return;
  }
  const ulong from = group.y * ulong(n) * ulong(inner) + c;
  const ulong first = is_causal ? first_seen(c, ulong(n), queries, keys, query_walks) : 0;
  softmax_column_gradient<false>(g + from, y + from, dx + from, ulong(n), ulong(inner), first, is_causal);
}

// Attention, backward, by 8x8 matrices: attention_matrix_gradient.h has the mathematics, attention_gradient.metal the same
// kernels for lanes that have a row each. Grids are theirs, with 8 rows for each of at most 4 simdgroups.
#include "attention_matrix_gradient.h"

template <typename T, uint C>
[[kernel]] void attention_matrix_delta(
    device const T* g [[buffer(0)]],
    device const T* q [[buffer(1)]],
    device const T* k [[buffer(2)]],
    device const T* v [[buffer(3)]],
    device const T* bias [[buffer(4)]],
    device const bool* mask [[buffer(5)]],
    device const float* slopes [[buffer(6)]],
    device const long* seed [[buffer(7)]],
    device const float* stats [[buffer(8)]],
    device const T* out [[buffer(9)]],
    device const T* rest [[buffer(10)]],
    device const float* g_lse [[buffer(11)]],
    device float* delta [[buffer(12)]],
    constant long& queries [[buffer(13)]],
    constant long& keys [[buffer(14)]],
    constant long& heads [[buffer(15)]],
    constant long& heads_each [[buffer(16)]],
    constant long& depth [[buffer(17)]],
    constant long& width [[buffer(18)]],
    constant float& scale [[buffer(19)]],
    constant float& softcap [[buffer(20)]],
    constant long& low [[buffer(21)]],
    constant long& high [[buffer(22)]],
    constant long& mask_batch [[buffer(23)]],
    constant long& mask_head [[buffer(24)]],
    constant long& mask_query [[buffer(25)]],
    constant long& mask_key [[buffer(26)]],
    constant float& dropped [[buffer(27)]],
    constant long& flags [[buffer(28)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  constexpr uint N = C > 128 ? 16 : 32;
  threadgroup float tile[N * C];
  const Lane lane = {simd_lane_id, simd_group_id, simd_groups};
  const Place at = place_of(simd_lane_id);
  const uint set = uint(flags);
  const uint first = gid.x * 8 * simd_groups;
  const uint row = first + simd_group_id * 8 + at.row;
  const uint query = min(row, uint(queries) - 1);
  const uint head = gid.y;
  const uint batch = gid.z;
  const uint key_heads = uint(heads / heads_each);
  const uint key_head = head / uint(heads_each);
  const Layout of_q = layout_of(queries, heads, depth, set & QUERY_ROWS_FIRST);
  const Layout of_g = layout_of(queries, heads, width, set & QUERY_ROWS_FIRST);
  const Layout of_k = layout_of(keys, key_heads, depth, set & KEY_ROWS_FIRST);
  const Layout of_v = layout_of(keys, key_heads, width, set & KEY_ROWS_FIRST);
  const Rows<T> of_keys = {k + batch * of_k.batch + key_head * of_k.head, of_k.row, nullptr, 1, 1.0f};
  const Rows<T> of_values = {v + batch * of_v.batch + key_head * of_v.head, of_v.row, nullptr, 1, 1.0f};
  const int highest = int(min(first + 8 * simd_groups, uint(queries))) - 1;
  const Span span = span_of(int(first), highest, int(low), int(high), int(keys));

  Scores<T> how = {set, softcap, 0.0f, bias, mask, mask_key, 0, int(query) + int(low), int(query) + int(high)};
  if (has_extras) {
    const long from = batch * mask_batch + head * mask_head + query * mask_query;
    how.bias = set & HAS_BIAS ? bias + from : bias;
    how.mask = set & HAS_MASK ? mask + from : mask;
    how.place = int(query) + int(keys) - int(queries);
    if (set & HAS_SLOPES) {
      how.slope = slopes[(set & SLOPES_BY_BATCH ? batch * uint(heads) : 0) + head];
    }
  }
  const Dropout dropout = dropout_of(seed, dropped, batch * uint(heads) + head);

  const ulong place = (batch * ulong(heads) + head) * queries + query;
  const ulong from_g = batch * of_g.batch + head * of_g.head + query * of_g.row;
  float sum = 0.0f;
  if (span.end - span.begin <= FEW_KEYS) {
    Matrix mine[C / 8];
    Matrix grads[C / 8];
    read_matrices<C>(mine, q + batch * of_q.batch + head * of_q.head + query * of_q.row, uint(depth), at);
    read_matrices<C>(grads, g + from_g, uint(width), at);
    const Softmax softmax = {stats[2 * place], stats[2 * place + 1], 0.0f};
    const Over<T> over = {of_keys, of_values, how, dropout, scale, uint(depth), uint(width), tile};
    sum = matrix_delta<T, C, N>(mine, grads, over, query, uint(keys), softmax, span, at, lane);
  } else {
    const bool keeps = set & KEEPS_REST;
    sum = product_delta(g + from_g, out + from_g, rest + (keeps ? from_g : 0), keeps, uint(width));
  }
  if (row < uint(queries) && at.column == 0) {
    write_delta(delta + 2 * place, {sum, 0.0f}, g_lse[place]);
  }
}

template <typename T, uint C>
[[kernel]] void attention_matrix_query_gradient(
    device const T* g [[buffer(0)]],
    device const T* q [[buffer(1)]],
    device const T* k [[buffer(2)]],
    device const T* v [[buffer(3)]],
    device const T* bias [[buffer(4)]],
    device const bool* mask [[buffer(5)]],
    device const float* slopes [[buffer(6)]],
    device const long* seed [[buffer(7)]],
    device const float* stats [[buffer(8)]],
    device const float* delta [[buffer(9)]],
    device T* dq [[buffer(10)]],
    constant long& queries [[buffer(11)]],
    constant long& keys [[buffer(12)]],
    constant long& heads [[buffer(13)]],
    constant long& heads_each [[buffer(14)]],
    constant long& depth [[buffer(15)]],
    constant long& width [[buffer(16)]],
    constant float& scale [[buffer(17)]],
    constant float& softcap [[buffer(18)]],
    constant long& low [[buffer(19)]],
    constant long& high [[buffer(20)]],
    constant long& mask_batch [[buffer(21)]],
    constant long& mask_head [[buffer(22)]],
    constant long& mask_query [[buffer(23)]],
    constant long& mask_key [[buffer(24)]],
    constant float& dropped [[buffer(25)]],
    constant long& flags [[buffer(26)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  constexpr uint N = C > 128 ? 16 : 32;
  threadgroup float tile[N * C];
  threadgroup float room[8 * N * 4];
  const Lane lane = {simd_lane_id, simd_group_id, simd_groups};
  const Place at = place_of(simd_lane_id);
  const uint set = uint(flags);
  const uint first = gid.x * 8 * simd_groups;
  const uint row = first + simd_group_id * 8 + at.row;
  const uint query = min(row, uint(queries) - 1);
  const uint head = gid.y;
  const uint batch = gid.z;
  const uint key_heads = uint(heads / heads_each);
  const uint key_head = head / uint(heads_each);
  const Layout of_q = layout_of(queries, heads, depth, set & QUERY_ROWS_FIRST);
  const Layout of_g = layout_of(queries, heads, width, set & QUERY_ROWS_FIRST);
  const Layout of_k = layout_of(keys, key_heads, depth, set & KEY_ROWS_FIRST);
  const Layout of_v = layout_of(keys, key_heads, width, set & KEY_ROWS_FIRST);
  const Rows<T> of_keys = {k + batch * of_k.batch + key_head * of_k.head, of_k.row, nullptr, 1, 1.0f};
  const Rows<T> of_values = {v + batch * of_v.batch + key_head * of_v.head, of_v.row, nullptr, 1, 1.0f};
  const int highest = int(min(first + 8 * simd_groups, uint(queries))) - 1;
  const Span span = span_of(int(first), highest, int(low), int(high), int(keys));

  Scores<T> how = {set, softcap, 0.0f, bias, mask, mask_key, 0, int(query) + int(low), int(query) + int(high)};
  if (has_extras) {
    const long from = batch * mask_batch + head * mask_head + query * mask_query;
    how.bias = set & HAS_BIAS ? bias + from : bias;
    how.mask = set & HAS_MASK ? mask + from : mask;
    how.place = int(query) + int(keys) - int(queries);
    if (set & HAS_SLOPES) {
      how.slope = slopes[(set & SLOPES_BY_BATCH ? batch * uint(heads) : 0) + head];
    }
  }
  const Dropout dropout = dropout_of(seed, dropped, batch * uint(heads) + head);

  Matrix mine[C / 8];
  Matrix grads[C / 8];
  Matrix sums[C / 8];
  const ulong from = batch * of_q.batch + head * of_q.head + query * of_q.row;
  read_matrices<C>(mine, q + from, uint(depth), at);
  read_matrices<C>(grads, g + batch * of_g.batch + head * of_g.head + query * of_g.row, uint(width), at);
  clear_matrices<C>(sums);
  const ulong place = (batch * ulong(heads) + head) * queries + query;
  const Softmax softmax = {stats[2 * place], stats[2 * place + 1], 0.0f};
  const float2 both = float2(delta[2 * place], delta[2 * place + 1]);
  const Over<T> over = {of_keys, of_values, how, dropout, scale, uint(depth), uint(width), tile};
  add_to_query_matrices<T, C, N>(mine, grads, sums, over, query, uint(keys), softmax, both, span, room, at, lane);
  if (row < uint(queries)) {
    write_matrices<C>(dq + from, sums, 1.0f, uint(depth), at);
  }
}

template <typename T, uint C>
[[kernel]] void attention_matrix_key_gradient(
    device const T* g [[buffer(0)]],
    device const T* q [[buffer(1)]],
    device const T* k [[buffer(2)]],
    device const T* v [[buffer(3)]],
    device const T* bias [[buffer(4)]],
    device const bool* mask [[buffer(5)]],
    device const float* slopes [[buffer(6)]],
    device const long* seed [[buffer(7)]],
    device const float* stats [[buffer(8)]],
    device const float* delta [[buffer(9)]],
    device T* dk [[buffer(10)]],
    device T* dv [[buffer(11)]],
    constant long& queries [[buffer(12)]],
    constant long& keys [[buffer(13)]],
    constant long& heads [[buffer(14)]],
    constant long& heads_each [[buffer(15)]],
    constant long& depth [[buffer(16)]],
    constant long& width [[buffer(17)]],
    constant float& scale [[buffer(18)]],
    constant float& softcap [[buffer(19)]],
    constant long& low [[buffer(20)]],
    constant long& high [[buffer(21)]],
    constant long& mask_batch [[buffer(22)]],
    constant long& mask_head [[buffer(23)]],
    constant long& mask_query [[buffer(24)]],
    constant long& mask_key [[buffer(25)]],
    constant float& dropped [[buffer(26)]],
    constant long& flags [[buffer(27)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  constexpr uint N = C > 128 ? 16 : 32;
  threadgroup float tile[N * C];
  threadgroup float room[8 * N * 4];
  const Lane lane = {simd_lane_id, simd_group_id, simd_groups};
  const Place at = place_of(simd_lane_id);
  const uint set = uint(flags);
  const uint first = gid.x * 8 * simd_groups;
  const uint row = first + simd_group_id * 8 + at.row;
  const uint key = min(row, uint(keys) - 1);
  const uint key_head = gid.y;
  const uint batch = gid.z;
  const uint key_heads = uint(heads / heads_each);
  const Layout of_q = layout_of(queries, heads, depth, set & QUERY_ROWS_FIRST);
  const Layout of_g = layout_of(queries, heads, width, set & QUERY_ROWS_FIRST);
  const Layout of_k = layout_of(keys, key_heads, depth, set & KEY_ROWS_FIRST);
  const Layout of_v = layout_of(keys, key_heads, width, set & KEY_ROWS_FIRST);
  // A key sees the queries that see it: from key - high to key - low.
  const int highest = int(min(first + 8 * simd_groups, uint(keys))) - 1;
  const Span span = span_of(int(first), highest, -int(high), -int(low), int(queries));

  Matrix own_k[C / 8];
  Matrix own_v[C / 8];
  Matrix sums_k[C / 8];
  Matrix sums_v[C / 8];
  const ulong from_k = batch * of_k.batch + key_head * of_k.head + key * of_k.row;
  const ulong from_v = batch * of_v.batch + key_head * of_v.head + key * of_v.row;
  read_matrices<C>(own_k, k + from_k, uint(depth), at);
  read_matrices<C>(own_v, v + from_v, uint(width), at);
  clear_matrices<C>(sums_k);
  clear_matrices<C>(sums_v);
  for (uint head = key_head * uint(heads_each); head < (key_head + 1) * uint(heads_each); ++head) {
    const Rows<T> of_queries = {q + batch * of_q.batch + head * of_q.head, of_q.row, nullptr, 1, 1.0f};
    const Rows<T> of_grads = {g + batch * of_g.batch + head * of_g.head, of_g.row, nullptr, 1, 1.0f};
    Scores<T> how = {set, softcap, 0.0f, bias, mask, mask_query, 0, int(key) - int(high), int(key) - int(low)};
    if (has_extras) {
      const long from = batch * mask_batch + head * mask_head + key * mask_key;
      how.bias = set & HAS_BIAS ? bias + from : bias;
      how.mask = set & HAS_MASK ? mask + from : mask;
      how.place = int(key) - int(keys) + int(queries);
      if (set & HAS_SLOPES) {
        how.slope = slopes[(set & SLOPES_BY_BATCH ? batch * uint(heads) : 0) + head];
      }
    }
    const Dropout dropout = dropout_of(seed, dropped, batch * uint(heads) + head);
    const ulong place = (batch * ulong(heads) + head) * queries;
    const Over<T> over = {of_queries, of_grads, how, dropout, scale, uint(depth), uint(width), tile};
    add_to_key_matrices<T, C, N>(
        own_k, own_v, sums_k, sums_v, over, stats + 2 * place, delta + 2 * place, key, uint(queries), span, room, at,
        lane);
  }
  if (row < uint(keys)) {
    write_matrices<C>(dk + from_k, sums_k, 1.0f, uint(depth), at);
    write_matrices<C>(dv + from_v, sums_v, 1.0f, uint(width), at);
  }
}

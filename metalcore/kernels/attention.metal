// Attention, forward: attention_forward.h has the mathematics. Splits of the keys are joined by attention_join.
#include "attention_forward.h"

constant bool is_split [[function_constant(1)]];  // a threadgroup takes a part of the keys and writes sums, not results

// Rows of a threadgroup: 32 queries of a head for each simdgroup, or those of all query heads of a key head (IS_PACKED).
// grid: blocks of rows times splits, heads (of keys where packed), batch. C: room for depth and width.
template <typename T, uint C, bool is_tiled>
[[kernel]] void attention_forward(
    device const T* q [[buffer(0)]],
    device const T* k [[buffer(1)]],
    device const T* v [[buffer(2)]],
    device const T* bias [[buffer(3)]],
    device const bool* mask [[buffer(4)]],
    device const float* slopes [[buffer(5)]],
    device const float* sinks [[buffer(6)]],
    device const long* seed [[buffer(7)]],
    device T* out [[buffer(8)]],
    device T* rest [[buffer(9)]],
    device float* stats [[buffer(10)]],
    device float* lse [[buffer(11)]],
    device float* parts [[buffer(12)]],
    constant long& queries [[buffer(13)]],
    constant long& keys [[buffer(14)]],
    constant long& key_rows [[buffer(15)]],
    constant long& heads [[buffer(16)]],
    constant long& heads_each [[buffer(17)]],
    constant long& depth [[buffer(18)]],
    constant long& width [[buffer(19)]],
    constant float& scale [[buffer(20)]],
    constant float& softcap [[buffer(21)]],
    constant long& low [[buffer(22)]],
    constant long& high [[buffer(23)]],
    constant long& mask_batch [[buffer(24)]],
    constant long& mask_head [[buffer(25)]],
    constant long& mask_query [[buffer(26)]],
    constant long& mask_key [[buffer(27)]],
    constant float& dropped [[buffer(28)]],
    constant long& flags [[buffer(29)]],
    constant long& splits [[buffer(30)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float tile[is_tiled ? BLOCK * C : 1];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint set = uint(flags);
  const bool is_packed = set & IS_PACKED;
  const uint split = is_split ? gid.x % uint(splits) : 0;
  const uint block = is_split ? gid.x / uint(splits) : gid.x;
  const uint rows = uint(queries) * (is_packed ? uint(heads_each) : 1);
  const uint first = block * 32 * simd_groups;
  const uint row = first + simd_group_id * 32 + simd_lane_id;
  const uint mine_row = min(row, rows - 1);  // lanes past the end repeat the last row
  const uint query = is_packed ? mine_row % uint(queries) : mine_row;
  const uint head = is_packed ? gid.y * uint(heads_each) + mine_row / uint(queries) : gid.y;
  const uint key_head = is_packed ? gid.y : gid.y / uint(heads_each);
  const uint batch = gid.z;
  const uint key_heads = uint(heads / heads_each);

  const Layout of_q = layout_of(queries, heads, depth, set & QUERY_ROWS_FIRST);
  const Layout of_k = layout_of(key_rows, key_heads, depth, set & KEY_ROWS_FIRST);
  const Layout of_v = layout_of(key_rows, key_heads, width, set & KEY_ROWS_FIRST);
  const Rows<T> of_keys = {k + batch * of_k.batch + key_head * of_k.head, of_k.row, nullptr, 1, 1.0f};
  const Rows<T> of_values = {v + batch * of_v.batch + key_head * of_v.head, of_v.row, nullptr, 1, 1.0f};

  const int lowest = is_packed ? 0 : int(first);
  const int highest = is_packed ? int(queries) - 1 : int(min(first + 32 * simd_groups, rows)) - 1;
  Span span = span_of(lowest, highest, int(low), int(high), int(keys));
  if (is_split) {
    span = part_of(span, split, uint(splits), uint(keys));
  }

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

  float mine[C];
  float sums_high[C];
  float sums_low[C];
  const Sums sums = {sums_high, sums_low};
  device const T* from = q + batch * of_q.batch + head * of_q.head + query * of_q.row;
  read_row(mine, from, uint(depth));
  clear_row(sums, uint(width));
  Softmax found = {-INFINITY, 0.0f, 0.0f};
  if (!is_split && (set & HAS_SINKS)) {
    found = {sinks[head], 1.0f, 0.0f};
  }
  const Over<T> over = {of_keys, of_values, how, dropout, scale, uint(depth), uint(width), tile};
  found = attend<T, T, is_tiled>(mine, sums, found, over, query, span, at);
  if (row >= rows) {
    return;
  }
  const ulong place = (batch * ulong(heads) + head) * queries + query;
  if (is_split) {
    device float* part = parts + (place * splits + split) * (width + 2);
    part[0] = found.top;
    part[1] = found.total();
    write_row(part + 2, sums, uint(width));
    return;
  }
  lse[place] = log_sum(found);
  const Softmax given = kept(found);
  stats[2 * place] = given.top;
  stats[2 * place + 1] = given.total();
  const Layout of_out = layout_of(queries, heads, width, set & QUERY_ROWS_FIRST);
  const ulong to = batch * of_out.batch + head * of_out.head + query * of_out.row;
  finish(sums, found, uint(width), out + to, rest + (set & KEEPS_REST ? to : 0), set & KEEPS_REST);
}

// Joins the parts of a row: a simdgroup a row, its lanes the elements. grid: queries, heads, batch.
template <typename T>
[[kernel]] void attention_join(
    device const float* parts [[buffer(0)]],
    device const float* sinks [[buffer(1)]],
    device T* out [[buffer(2)]],
    device T* rest [[buffer(3)]],
    device float* stats [[buffer(4)]],
    device float* lse [[buffer(5)]],
    constant long& queries [[buffer(6)]],
    constant long& heads [[buffer(7)]],
    constant long& width [[buffer(8)]],
    constant long& flags [[buffer(9)]],
    constant long& splits [[buffer(10)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint set = uint(flags);
  const ulong place = (gid.z * ulong(heads) + gid.y) * queries + gid.x;
  const ulong pitch = width + 2;
  device const float* part = parts + place * splits * pitch;
  Softmax found = {-INFINITY, 0.0f, 0.0f};
  if (set & HAS_SINKS) {
    found = {sinks[gid.y], 1.0f, 0.0f};
  }
  float top = found.top;
  for (uint i = 0; i < uint(splits); ++i) {
    top = max(top, part[i * pitch]);
  }
  const float base = top == -INFINITY ? 0.0f : top;
  float sum = found.sum * exp_minus(base - found.top);
  for (uint i = 0; i < uint(splits); ++i) {
    sum += part[i * pitch + 1] * exp_minus(base - part[i * pitch]);
  }
  found = {top, sum, 0.0f};
  if (lane == 0) {
    lse[place] = log_sum(found);
    const Softmax given = kept(found);
    stats[2 * place] = given.top;
    stats[2 * place + 1] = given.total();
  }
  const Layout of_out = layout_of(queries, heads, width, set & QUERY_ROWS_FIRST);
  const ulong to = gid.z * of_out.batch + gid.y * of_out.head + gid.x * of_out.row;
  for (uint d = lane; d < uint(width); d += 32) {
    float value = 0.0f;
    for (uint i = 0; i < uint(splits); ++i) {
      value = fma(part[i * pitch + 2 + d], exp_minus(base - part[i * pitch]), value);
    }
    value = sum == 0.0f ? 0.0f : value / sum;
    const T rounded = T(value);
    out[to + d] = rounded;
    if (set & KEEPS_REST) {
      rest[to + d] = T(value - float(rounded));
    }
  }
}

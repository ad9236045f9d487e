// Attention by 8x8 matrices, for GPUs: attention_matrix.h has the mathematics, attention.metal the same kernel for
// lanes that have a row each.
#include "attention_matrix.h"

constant bool is_split [[function_constant(1)]];  // a threadgroup takes a part of the keys and writes sums, not results

// A threadgroup has 8 rows for each of at most 4 simdgroups. grid as that of attention_forward.
template <typename T, uint C>
[[kernel]] void attention_matrix_forward(
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
  constexpr uint N = C > 128 ? 16 : 32;  // keys at a time: a tile is at most 16 KB
  threadgroup float tile[N * C];
  threadgroup float room[8 * N * 4];
  const Lane lane = {simd_lane_id, simd_group_id, simd_groups};
  const Place at = place_of(simd_lane_id);
  const uint set = uint(flags);
  const bool is_packed = set & IS_PACKED;
  const uint split = is_split ? gid.x % uint(splits) : 0;
  const uint block = is_split ? gid.x / uint(splits) : gid.x;
  const uint rows = uint(queries) * (is_packed ? uint(heads_each) : 1);
  const uint first = block * 8 * simd_groups;
  const uint row = first + simd_group_id * 8 + at.row;
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
  const int highest = is_packed ? int(queries) - 1 : int(min(first + 8 * simd_groups, rows)) - 1;
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

  Matrix mine[C / 8];
  Matrix sums[C / 8];
  read_matrices<C>(mine, q + batch * of_q.batch + head * of_q.head + query * of_q.row, uint(depth), at);
MATRIX_UNROLL
  for (uint f = 0; f < C / 8; ++f) {
    sums[f] = zeros();
  }
  Softmax found = {-INFINITY, 0.0f, 0.0f};
  if (!is_split && (set & HAS_SINKS)) {
    found = {sinks[head], 1.0f, 0.0f};
  }
  const Over<T> over = {of_keys, of_values, how, dropout, scale, uint(depth), uint(width), tile};
  found = attend_matrices<T, C, N>(mine, sums, found, over, query, uint(keys), span, room, at, lane);
  if (row >= rows) {
    return;
  }
  const ulong place = (batch * ulong(heads) + head) * queries + query;
  const bool is_first = at.column == 0;  // one lane of a row
  if (is_split) {
    device float* part = parts + (place * splits + split) * (width + 2);
    if (is_first) {
      part[0] = found.top;
      part[1] = found.sum;
    }
    write_matrices<C>(part + 2, sums, 1.0f, uint(width), at);
    return;
  }
  if (is_first) {
    lse[place] = log_sum(found);
    const Softmax given = kept(found);
    stats[2 * place] = given.top;
    stats[2 * place + 1] = given.sum;
  }
  const Layout of_out = layout_of(queries, heads, width, set & QUERY_ROWS_FIRST);
  const ulong to = batch * of_out.batch + head * of_out.head + query * of_out.row;
  const float factor = found.sum == 0.0f ? 0.0f : 1.0f / found.sum;
  write_matrices<C>(out + to, sums, factor, uint(width), at);
  if (set & KEEPS_REST) {
    write_rest<C>(rest + to, sums, factor, uint(width), at);
  }
}

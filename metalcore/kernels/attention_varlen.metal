// Attention of sequences that stand one after the other, with gradients: attention_forward.h and attention_gradient.h
// have the mathematics. Sequence s has the queries starts_q[s] to starts_q[s + 1] and the keys starts_k[s] to
// starts_k[s + 1]; windows are aligned at its last query and key. Arrays are (tokens, heads, depth), and what is kept of
// a row (heads, tokens).
#include "attention_gradient.h"

// The tokens of one sequence; one whose starts are wrong has none.
struct Part {
  uint first;
  uint count;
};

inline Part part_of(device const int* starts, uint s, uint total) {
  const int first = starts[s];
  const int last = starts[s + 1];
  const bool is_right = first >= 0 && last >= first && last <= int(total);
  return {is_right ? uint(first) : 0, is_right ? uint(last - first) : 0};
}

// Notes the first wrong start: {1, place, value} in `errors`. One simdgroup for queries, one for keys.
[[kernel]] void attention_varlen_check(
    device const int* starts_q [[buffer(0)]],
    device const int* starts_k [[buffer(1)]],
    device long* errors [[buffer(2)]],
    constant long& sequences [[buffer(3)]],
    constant long& total_q [[buffer(4)]],
    constant long& total_k [[buffer(5)]],
    constant long& most_q [[buffer(6)]],
    constant long& most_k [[buffer(7)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  device const int* starts = gid.x == 0 ? starts_q : starts_k;
  const int total = int(gid.x == 0 ? total_q : total_k);
  const int most = int(gid.x == 0 ? most_q : most_k);
  uint wrong = ~0u;
  for (uint i = lane; i <= uint(sequences); i += 32) {
    const int before = i == 0 ? 0 : starts[i - 1];
    bool is_wrong = starts[i] < before || starts[i] > total || (i == 0 && starts[0] != 0);
    is_wrong = is_wrong || (i > 0 && starts[i] - before > most) || (i == uint(sequences) && starts[i] != total);
    wrong = is_wrong ? min(wrong, i) : wrong;
  }
  wrong = simd_min(wrong);
  if (lane == 0) {
    const bool is_wrong = wrong != ~0u;
    errors[gid.x * 3] = is_wrong ? 1 : 0;
    errors[gid.x * 3 + 1] = gid.x * (sequences + 1) + (is_wrong ? long(wrong) : 0);
    errors[gid.x * 3 + 2] = is_wrong ? long(starts[wrong]) : 0;
  }
}

// A lane has a query. grid: blocks of the longest sequence's queries, heads, sequences.
template <typename T, uint C, bool is_tiled>
[[kernel]] void attention_varlen_forward(
    device const T* q [[buffer(0)]],
    device const T* k [[buffer(1)]],
    device const T* v [[buffer(2)]],
    device const float* slopes [[buffer(3)]],
    device const long* seed [[buffer(4)]],
    device const int* starts_q [[buffer(5)]],
    device const int* starts_k [[buffer(6)]],
    device T* out [[buffer(7)]],
    device T* rest [[buffer(8)]],
    device float* stats [[buffer(9)]],
    device float* lse [[buffer(10)]],
    constant long& total_q [[buffer(11)]],
    constant long& total_k [[buffer(12)]],
    constant long& heads [[buffer(13)]],
    constant long& heads_each [[buffer(14)]],
    constant long& depth [[buffer(15)]],
    constant long& width [[buffer(16)]],
    constant float& scale [[buffer(17)]],
    constant float& softcap [[buffer(18)]],
    constant long& left [[buffer(19)]],
    constant long& right [[buffer(20)]],
    constant float& dropped [[buffer(21)]],
    constant long& flags [[buffer(22)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float tile[is_tiled ? BLOCK * C : 1];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint set = uint(flags);
  const Part of_q = part_of(starts_q, gid.z, uint(total_q));
  const Part of_k = part_of(starts_k, gid.z, uint(total_k));
  const int shift = int(of_k.count) - int(of_q.count);
  const int low = left < 0 ? -(1 << 29) : shift - int(left);
  const int high = right < 0 ? 1 << 29 : shift + int(right);
  const uint key_heads = uint(heads / heads_each);
  const uint first = gid.x * 32 * simd_groups;
  if (first >= of_q.count) {
    return;
  }
  const uint row = first + simd_group_id * 32 + simd_lane_id;
  const uint query = min(row, of_q.count - 1);
  const uint head = gid.y;
  const uint key_head = head / uint(heads_each);
  const Rows<T> keys = {
      k + (of_k.first * ulong(key_heads) + key_head) * depth, ulong(key_heads) * ulong(depth), nullptr, 1, 1.0f};
  const Rows<T> values = {
      v + (of_k.first * ulong(key_heads) + key_head) * width, ulong(key_heads) * ulong(width), nullptr, 1, 1.0f};
  const int highest = int(min(first + 32 * simd_groups, of_q.count)) - 1;
  const Span span = span_of(int(first), highest, low, high, int(of_k.count));
  Scores<T> how = {set, softcap, 0.0f, q, nullptr, 0, int(query) + shift, int(query) + low, int(query) + high};
  if (has_extras && (set & HAS_SLOPES)) {
    how.slope = slopes[(set & SLOPES_BY_BATCH ? gid.z * uint(heads) : 0) + head];
  }
  const Dropout dropout = dropout_of(seed, dropped, gid.z * uint(heads) + head);
  const ulong token = (of_q.first + query) * ulong(heads) + head;
  const ulong place = head * ulong(total_q) + of_q.first + query;
  float mine[C];
  float sums_high[C];
  float sums_low[C];
  const Sums sums = {sums_high, sums_low};
  read_row(mine, q + token * depth, uint(depth));
  clear_row(sums, uint(width));
  Softmax found = {-INFINITY, 0.0f, 0.0f};
  const Over<T> over = {keys, values, how, dropout, scale, uint(depth), uint(width), tile};
  found = attend<T, T, is_tiled>(mine, sums, found, over, query, span, at);
  if (row >= of_q.count) {
    return;
  }
  lse[place] = log_sum(found);
  const Softmax given = kept(found);
  stats[2 * place] = given.top;
  stats[2 * place + 1] = given.total();
  const bool keeps = set & KEEPS_REST;
  finish(sums, found, uint(width), out + token * width, rest + (keeps ? token * width : 0), keeps);
}

// delta and dlse of each row, as attention_delta of attention_gradient.metal.
template <typename T, uint C, bool is_tiled>
[[kernel]] void attention_varlen_delta(
    device const T* g [[buffer(0)]],
    device const T* q [[buffer(1)]],
    device const T* k [[buffer(2)]],
    device const T* v [[buffer(3)]],
    device const float* slopes [[buffer(4)]],
    device const long* seed [[buffer(5)]],
    device const int* starts_q [[buffer(6)]],
    device const int* starts_k [[buffer(7)]],
    device const float* stats [[buffer(8)]],
    device const T* out [[buffer(9)]],
    device const T* rest [[buffer(10)]],
    device const float* g_lse [[buffer(11)]],
    device float* delta [[buffer(12)]],
    constant long& total_q [[buffer(13)]],
    constant long& total_k [[buffer(14)]],
    constant long& heads [[buffer(15)]],
    constant long& heads_each [[buffer(16)]],
    constant long& depth [[buffer(17)]],
    constant long& width [[buffer(18)]],
    constant float& scale [[buffer(19)]],
    constant float& softcap [[buffer(20)]],
    constant long& left [[buffer(21)]],
    constant long& right [[buffer(22)]],
    constant float& dropped [[buffer(23)]],
    constant long& flags [[buffer(24)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float tile[is_tiled ? BLOCK * C : 1];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint set = uint(flags);
  const Part of_q = part_of(starts_q, gid.z, uint(total_q));
  const Part of_k = part_of(starts_k, gid.z, uint(total_k));
  const int shift = int(of_k.count) - int(of_q.count);
  const int low = left < 0 ? -(1 << 29) : shift - int(left);
  const int high = right < 0 ? 1 << 29 : shift + int(right);
  const uint key_heads = uint(heads / heads_each);
  const uint first = gid.x * 32 * simd_groups;
  if (first >= of_q.count) {
    return;
  }
  const uint row = first + simd_group_id * 32 + simd_lane_id;
  const uint query = min(row, of_q.count - 1);
  const uint head = gid.y;
  const uint key_head = head / uint(heads_each);
  const Rows<T> keys = {
      k + (of_k.first * ulong(key_heads) + key_head) * depth, ulong(key_heads) * ulong(depth), nullptr, 1, 1.0f};
  const Rows<T> values = {
      v + (of_k.first * ulong(key_heads) + key_head) * width, ulong(key_heads) * ulong(width), nullptr, 1, 1.0f};
  const int highest = int(min(first + 32 * simd_groups, of_q.count)) - 1;
  const Span span = span_of(int(first), highest, low, high, int(of_k.count));
  Scores<T> how = {set, softcap, 0.0f, q, nullptr, 0, int(query) + shift, int(query) + low, int(query) + high};
  if (has_extras && (set & HAS_SLOPES)) {
    how.slope = slopes[(set & SLOPES_BY_BATCH ? gid.z * uint(heads) : 0) + head];
  }
  const Dropout dropout = dropout_of(seed, dropped, gid.z * uint(heads) + head);
  const ulong token = (of_q.first + query) * ulong(heads) + head;
  const ulong place = head * ulong(total_q) + of_q.first + query;
  ExactSum sum = {0.0f, 0.0f};
  if (span.end - span.begin <= FEW_KEYS) {
    float mine[C];
    float grads[C];
    read_row(mine, q + token * depth, uint(depth));
    read_row(grads, g + token * width, uint(width));
    const Softmax softmax = {stats[2 * place], stats[2 * place + 1], 0.0f};
    const Over<T> over = {keys, values, how, dropout, scale, uint(depth), uint(width), tile};
    sum = summed_delta<T, is_tiled>(mine, grads, over, query, softmax, span, at);
  } else {
    sum.value = product_delta(g + token * width, out + token * width, rest + (set & KEEPS_REST ? token * width : 0),
        set & KEEPS_REST, uint(width));
  }
  if (row < of_q.count) {
    write_delta(delta + 2 * place, sum, g_lse[place]);
  }
}

// A lane has a query.
template <typename T, uint C, bool is_tiled>
[[kernel]] void attention_varlen_query_gradient(
    device const T* g [[buffer(0)]],
    device const T* q [[buffer(1)]],
    device const T* k [[buffer(2)]],
    device const T* v [[buffer(3)]],
    device const float* slopes [[buffer(4)]],
    device const long* seed [[buffer(5)]],
    device const int* starts_q [[buffer(6)]],
    device const int* starts_k [[buffer(7)]],
    device const float* stats [[buffer(8)]],
    device const float* delta [[buffer(9)]],
    device T* dq [[buffer(10)]],
    constant long& total_q [[buffer(11)]],
    constant long& total_k [[buffer(12)]],
    constant long& heads [[buffer(13)]],
    constant long& heads_each [[buffer(14)]],
    constant long& depth [[buffer(15)]],
    constant long& width [[buffer(16)]],
    constant float& scale [[buffer(17)]],
    constant float& softcap [[buffer(18)]],
    constant long& left [[buffer(19)]],
    constant long& right [[buffer(20)]],
    constant float& dropped [[buffer(21)]],
    constant long& flags [[buffer(22)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float tile[is_tiled ? BLOCK * C : 1];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint set = uint(flags);
  const Part of_q = part_of(starts_q, gid.z, uint(total_q));
  const Part of_k = part_of(starts_k, gid.z, uint(total_k));
  const int shift = int(of_k.count) - int(of_q.count);
  const int low = left < 0 ? -(1 << 29) : shift - int(left);
  const int high = right < 0 ? 1 << 29 : shift + int(right);
  const uint key_heads = uint(heads / heads_each);
  const uint first = gid.x * 32 * simd_groups;
  if (first >= of_q.count) {
    return;
  }
  const uint row = first + simd_group_id * 32 + simd_lane_id;
  const uint query = min(row, of_q.count - 1);
  const uint head = gid.y;
  const uint key_head = head / uint(heads_each);
  const Rows<T> keys = {
      k + (of_k.first * ulong(key_heads) + key_head) * depth, ulong(key_heads) * ulong(depth), nullptr, 1, 1.0f};
  const Rows<T> values = {
      v + (of_k.first * ulong(key_heads) + key_head) * width, ulong(key_heads) * ulong(width), nullptr, 1, 1.0f};
  const int highest = int(min(first + 32 * simd_groups, of_q.count)) - 1;
  const Span span = span_of(int(first), highest, low, high, int(of_k.count));
  Scores<T> how = {set, softcap, 0.0f, q, nullptr, 0, int(query) + shift, int(query) + low, int(query) + high};
  if (has_extras && (set & HAS_SLOPES)) {
    how.slope = slopes[(set & SLOPES_BY_BATCH ? gid.z * uint(heads) : 0) + head];
  }
  const Dropout dropout = dropout_of(seed, dropped, gid.z * uint(heads) + head);
  const ulong token = (of_q.first + query) * ulong(heads) + head;
  const ulong place = head * ulong(total_q) + of_q.first + query;
  float mine[C];
  float grads[C];
  float sums_high[C];
  float sums_low[C];
  const Sums sums = {sums_high, sums_low};
  read_row(mine, q + token * depth, uint(depth));
  read_row(grads, g + token * width, uint(width));
  clear_row(sums, uint(depth));
  const Softmax softmax = {stats[2 * place], stats[2 * place + 1], 0.0f};
  const float2 both = float2(delta[2 * place], delta[2 * place + 1]);
  const Over<T> over = {keys, values, how, dropout, scale, uint(depth), uint(width), tile};
  add_to_query<T, is_tiled>(mine, grads, sums, over, query, softmax, both, span, at);
  if (row < of_q.count) {
    write_row(dq + token * depth, sums, uint(depth));
  }
}

// A lane has a key. grid: blocks of the longest sequence's keys, key heads, sequences.
template <typename T, uint C, bool is_tiled>
[[kernel]] void attention_varlen_key_gradient(
    device const T* g [[buffer(0)]],
    device const T* q [[buffer(1)]],
    device const T* k [[buffer(2)]],
    device const T* v [[buffer(3)]],
    device const float* slopes [[buffer(4)]],
    device const long* seed [[buffer(5)]],
    device const int* starts_q [[buffer(6)]],
    device const int* starts_k [[buffer(7)]],
    device const float* stats [[buffer(8)]],
    device const float* delta [[buffer(9)]],
    device T* dk [[buffer(10)]],
    device T* dv [[buffer(11)]],
    constant long& total_q [[buffer(12)]],
    constant long& total_k [[buffer(13)]],
    constant long& heads [[buffer(14)]],
    constant long& heads_each [[buffer(15)]],
    constant long& depth [[buffer(16)]],
    constant long& width [[buffer(17)]],
    constant float& scale [[buffer(18)]],
    constant float& softcap [[buffer(19)]],
    constant long& left [[buffer(20)]],
    constant long& right [[buffer(21)]],
    constant float& dropped [[buffer(22)]],
    constant long& flags [[buffer(23)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float tile[is_tiled ? BLOCK * C : 1];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint set = uint(flags);
  const Part of_q = part_of(starts_q, gid.z, uint(total_q));
  const Part of_k = part_of(starts_k, gid.z, uint(total_k));
  const int shift = int(of_k.count) - int(of_q.count);
  const int low = left < 0 ? -(1 << 29) : shift - int(left);
  const int high = right < 0 ? 1 << 29 : shift + int(right);
  const uint key_heads = uint(heads / heads_each);
  const uint first = gid.x * 32 * simd_groups;
  if (first >= of_k.count) {
    return;
  }
  const uint row = first + simd_group_id * 32 + simd_lane_id;
  const uint key = min(row, of_k.count - 1);
  const uint key_head = gid.y;
  const int highest = int(min(first + 32 * simd_groups, of_k.count)) - 1;
  const Span span = span_of(int(first), highest, -high, -low, int(of_q.count));
  float own_k[C];
  float own_v[C];
  float high_k[C];
  float low_k[C];
  float high_v[C];
  float low_v[C];
  const Sums sums_k = {high_k, low_k};
  const Sums sums_v = {high_v, low_v};
  const ulong token = (of_k.first + key) * ulong(key_heads) + key_head;
  read_row(own_k, k + token * depth, uint(depth));
  read_row(own_v, v + token * width, uint(width));
  clear_row(sums_k, uint(depth));
  clear_row(sums_v, uint(width));
  for (uint head = key_head * uint(heads_each); head < (key_head + 1) * uint(heads_each); ++head) {
    const ulong from = of_q.first * ulong(heads) + head;
    const Rows<T> queries = {q + from * depth, ulong(heads) * ulong(depth), nullptr, 1, 1.0f};
    const Rows<T> grads = {g + from * width, ulong(heads) * ulong(width), nullptr, 1, 1.0f};
    Scores<T> how = {set, softcap, 0.0f, q, nullptr, 0, int(key) - shift, int(key) - high, int(key) - low};
    if (has_extras && (set & HAS_SLOPES)) {
      how.slope = slopes[(set & SLOPES_BY_BATCH ? gid.z * uint(heads) : 0) + head];
    }
    const Dropout dropout = dropout_of(seed, dropped, gid.z * uint(heads) + head);
    const ulong place = head * ulong(total_q) + of_q.first;
    const Over<T> over = {queries, grads, how, dropout, scale, uint(depth), uint(width), tile};
    add_to_key<T, is_tiled>(own_k, own_v, sums_k, sums_v, over, stats + 2 * place, delta + 2 * place, key, span, at);
  }
  if (row < of_k.count) {
    write_row(dk + token * depth, sums_k, uint(depth));
    write_row(dv + token * width, sums_v, uint(width));
  }
}

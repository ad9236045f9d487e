// Attention, backward: attention_gradient.h has the mathematics.
#include "attention_gradient.h"
#include "exact_sum.h"

// delta = do . o and dlse of each row. Where a row sees few keys, delta is summed over them: what dp and delta have in
// common then cancels in dp - delta, as it should. Otherwise it is do . o, with `rest`, what o lost by its rounding; in
// the order of dp. A lane has a query. grid: blocks of queries, heads, batch.
template <typename T, uint C, bool is_tiled>
[[kernel]] void attention_delta(
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
  threadgroup float tile[is_tiled ? BLOCK * C : 1];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint set = uint(flags);
  const uint first = gid.x * 32 * simd_groups;
  const uint row = first + simd_group_id * 32 + simd_lane_id;
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
  const int highest = int(min(first + 32 * simd_groups, uint(queries))) - 1;
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
  ExactSum sum = {0.0f, 0.0f};
  if (span.end - span.begin <= FEW_KEYS) {
    float mine[C];
    float grads[C];
    read_row(mine, q + batch * of_q.batch + head * of_q.head + query * of_q.row, uint(depth));
    read_row(grads, g + from_g, uint(width));
    const Softmax softmax = {stats[2 * place], stats[2 * place + 1], 0.0f};
    const Over<T> over = {of_keys, of_values, how, dropout, scale, uint(depth), uint(width), tile};
    sum = summed_delta<T, is_tiled>(mine, grads, over, query, softmax, span, at);
  } else {
    const bool keeps = set & KEEPS_REST;
    sum.value = product_delta(g + from_g, out + from_g, rest + (keeps ? from_g : 0), keeps, uint(width));
  }
  if (row < uint(queries)) {
    write_delta(delta + 2 * place, sum, g_lse[place]);
  }
}

// A lane has a query. grid: blocks of queries, heads, batch.
template <typename T, uint C, bool is_tiled>
[[kernel]] void attention_query_gradient(
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
  threadgroup float tile[is_tiled ? BLOCK * C : 1];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint set = uint(flags);
  const uint first = gid.x * 32 * simd_groups;
  const uint row = first + simd_group_id * 32 + simd_lane_id;
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
  const int highest = int(min(first + 32 * simd_groups, uint(queries))) - 1;
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

  float mine[C];
  float grads[C];
  float sums_high[C];
  float sums_low[C];
  const Sums sums = {sums_high, sums_low};
  const ulong from = batch * of_q.batch + head * of_q.head + query * of_q.row;
  read_row(mine, q + from, uint(depth));
  read_row(grads, g + batch * of_g.batch + head * of_g.head + query * of_g.row, uint(width));
  clear_row(sums, uint(depth));
  const ulong place = (batch * ulong(heads) + head) * queries + query;
  const Softmax softmax = {stats[2 * place], stats[2 * place + 1], 0.0f};
  const float2 both = float2(delta[2 * place], delta[2 * place + 1]);
  const Over<T> over = {of_keys, of_values, how, dropout, scale, uint(depth), uint(width), tile};
  add_to_query<T, is_tiled>(mine, grads, sums, over, query, softmax, both, span, at);
  if (row < uint(queries)) {
    write_row(dq + from, sums, uint(depth));
  }
}

// A lane has a key, and goes over the queries of all query heads of its head. grid: blocks of keys, key heads, batch.
template <typename T, uint C, bool is_tiled>
[[kernel]] void attention_key_gradient(
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
  threadgroup float tile[is_tiled ? BLOCK * C : 1];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint set = uint(flags);
  const uint first = gid.x * 32 * simd_groups;
  const uint row = first + simd_group_id * 32 + simd_lane_id;
  const uint key = min(row, uint(keys) - 1);
  const uint key_head = gid.y;
  const uint batch = gid.z;
  const uint key_heads = uint(heads / heads_each);
  const Layout of_q = layout_of(queries, heads, depth, set & QUERY_ROWS_FIRST);
  const Layout of_g = layout_of(queries, heads, width, set & QUERY_ROWS_FIRST);
  const Layout of_k = layout_of(keys, key_heads, depth, set & KEY_ROWS_FIRST);
  const Layout of_v = layout_of(keys, key_heads, width, set & KEY_ROWS_FIRST);
  // A key sees the queries that see it: from key - high to key - low.
  const int highest = int(min(first + 32 * simd_groups, uint(keys))) - 1;
  const Span span = span_of(int(first), highest, -int(high), -int(low), int(queries));

  float own_k[C];
  float own_v[C];
  float high_k[C];
  float low_k[C];
  float high_v[C];
  float low_v[C];
  const Sums sums_k = {high_k, low_k};
  const Sums sums_v = {high_v, low_v};
  const ulong from_k = batch * of_k.batch + key_head * of_k.head + key * of_k.row;
  const ulong from_v = batch * of_v.batch + key_head * of_v.head + key * of_v.row;
  read_row(own_k, k + from_k, uint(depth));
  read_row(own_v, v + from_v, uint(width));
  clear_row(sums_k, uint(depth));
  clear_row(sums_v, uint(width));
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
    add_to_key<T, is_tiled>(own_k, own_v, sums_k, sums_v, over, stats + 2 * place, delta + 2 * place, key, span, at);
  }
  if (row < uint(keys)) {
    write_row(dk + from_k, sums_k, uint(depth));
    write_row(dv + from_v, sums_v, uint(width));
  }
}

// The gradient of a bias, summed over the batch and the heads that share it: (batches, head_count, queries, keys).
// grid: blocks of queries, blocks of keys, batches times head_count.
template <typename T, uint C, bool is_tiled>
[[kernel]] void attention_bias_gradient(
    device const T* g [[buffer(0)]],
    device const T* q [[buffer(1)]],
    device const T* k [[buffer(2)]],
    device const T* v [[buffer(3)]],
    device const T* bias [[buffer(4)]],
    device const float* slopes [[buffer(5)]],
    device const long* seed [[buffer(6)]],
    device const float* stats [[buffer(7)]],
    device const float* delta [[buffer(8)]],
    device float* dbias [[buffer(9)]],
    constant long& queries [[buffer(10)]],
    constant long& keys [[buffer(11)]],
    constant long& heads [[buffer(12)]],
    constant long& heads_each [[buffer(13)]],
    constant long& depth [[buffer(14)]],
    constant long& width [[buffer(15)]],
    constant float& scale [[buffer(16)]],
    constant float& softcap [[buffer(17)]],
    constant long& low [[buffer(18)]],
    constant long& high [[buffer(19)]],
    constant long& mask_batch [[buffer(20)]],
    constant long& mask_head [[buffer(21)]],
    constant long& mask_query [[buffer(22)]],
    constant long& mask_key [[buffer(23)]],
    constant float& dropped [[buffer(24)]],
    constant long& flags [[buffer(25)]],
    constant long& batches [[buffer(26)]],
    constant long& head_count [[buffer(27)]],
    constant long& all_batches [[buffer(28)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]]) {
  threadgroup float tile[is_tiled ? BLOCK * C : 1];
  const Lane at = {simd_lane_id, 0, 1};
  const uint set = uint(flags);
  const uint row = gid.x * 32 + simd_lane_id;
  const uint query = min(row, uint(queries) - 1);
  const uint from = gid.y * BLOCK;
  const uint n = min(BLOCK, uint(keys) - from);
  const uint key_heads = uint(heads / heads_each);
  const Layout of_q = layout_of(queries, heads, depth, set & QUERY_ROWS_FIRST);
  const Layout of_g = layout_of(queries, heads, width, set & QUERY_ROWS_FIRST);
  const Layout of_k = layout_of(keys, key_heads, depth, set & KEY_ROWS_FIRST);
  const Layout of_v = layout_of(keys, key_heads, width, set & KEY_ROWS_FIRST);
  const uint first_batch = batches == 1 ? 0 : gid.z / uint(head_count);
  const uint last_batch = batches == 1 ? uint(all_batches) : first_batch + 1;
  const uint first_head = head_count == 1 ? 0 : gid.z % uint(head_count);
  const uint last_head = head_count == 1 ? uint(heads) : first_head + 1;
  float mine[C];
  float grads[C];
  float s[BLOCK];
  float low_part[BLOCK];
  float dp[BLOCK];
  float lost[BLOCK];
  float sums_high[BLOCK];
  float sums_low[BLOCK];
  const Sums sums = {sums_high, sums_low};
  clear_row(sums, BLOCK);
  for (uint batch = first_batch; batch < last_batch; ++batch) {
    for (uint head = first_head; head < last_head; ++head) {
      const uint key_head = head / uint(heads_each);
      const Rows<T> of_keys = {k + batch * of_k.batch + key_head * of_k.head, of_k.row, nullptr, 1, 1.0f};
      const Rows<T> of_values = {v + batch * of_v.batch + key_head * of_v.head, of_v.row, nullptr, 1, 1.0f};
      Scores<T> how = {set, softcap, 0.0f, bias, nullptr, mask_key, 0, int(query) + int(low), int(query) + int(high)};
      how.bias = bias + batch * mask_batch + head * mask_head + query * mask_query;
      how.place = int(query) + int(keys) - int(queries);
      if (set & HAS_SLOPES) {
        how.slope = slopes[(set & SLOPES_BY_BATCH ? batch * uint(heads) : 0) + head];
      }
      read_row(mine, q + batch * of_q.batch + head * of_q.head + query * of_q.row, uint(depth));
      read_row(grads, g + batch * of_g.batch + head * of_g.head + query * of_g.row, uint(width));
      if constexpr (is_tiled) {
        fill(tile, of_values, from, n, uint(width), at);
        products<T>(grads, (threadgroup const float*)tile, width, n, uint(width), dp, lost);
        fill(tile, of_keys, from, n, uint(depth), at);
        products<T>(mine, (threadgroup const float*)tile, depth, n, uint(depth), s, low_part);
      } else {
        device const float* value_rows = (device const float*)of_values.base + from * of_values.pitch;
        device const float* key_rows = (device const float*)of_keys.base + from * of_keys.pitch;
        products<T>(grads, value_rows, of_values.pitch, n, uint(width), dp, lost);
        products<T>(mine, key_rows, of_keys.pitch, n, uint(depth), s, low_part);
      }
      shape(s, low_part, how, scale, from, n, true, nullptr);
      const ulong place = (batch * ulong(heads) + head) * queries + query;
      const Softmax softmax = {stats[2 * place], stats[2 * place + 1], 0.0f};
      const Dropout dropout = dropout_of(seed, dropped, batch * uint(heads) + head);
      const float2 both = float2(delta[2 * place], delta[2 * place + 1]);
      score_gradients(s, low_part, dp, nullptr, softmax, both, how, dropout, query, from, 1.0f, true, lost);
      for (uint j = 0; j < BLOCK; ++j) {
        sums_high[j] += dp[j];
      }
    }
  }
  if (row < uint(queries)) {
    write_row(dbias + (gid.z * ulong(queries) + query) * keys + from, sums, n);
  }
}

// Sums of (batches, queries, keys) over the dimensions that a bias does not have: a thread an element of
// (batches, query_count, key_count).
template <typename T>
[[kernel]] void attention_bias_sum(
    device const float* whole [[buffer(0)]],
    device T* dbias [[buffer(1)]],
    constant long& queries [[buffer(2)]],
    constant long& keys [[buffer(3)]],
    constant long& query_count [[buffer(4)]],
    constant long& key_count [[buffer(5)]],
    constant long& count [[buffer(6)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]]) {
  const ulong i = gid.x * 32ul + simd_lane_id;
  if (i >= ulong(count)) {
    return;
  }
  const ulong key = i % key_count;
  const ulong query = i / key_count % query_count;
  const ulong batch = i / key_count / query_count;
  float sum = 0.0f;
  for (ulong a = query; a < (query_count == 1 ? ulong(queries) : query + 1); ++a) {
    float part = 0.0f;
    for (ulong b = key; b < (key_count == 1 ? ulong(keys) : key + 1); ++b) {
      part += whole[(batch * queries + a) * keys + b];
    }
    sum += part;
  }
  dbias[i] = T(sum);
}

// power * (1 + part)
struct Exponential {
  float power;
  float part;
};

// e^-x for x from 0 on, with more digits than one number has: a sink's gradient is a sum in which much cancels.
inline Exponential exponential(float x) {
#ifdef METALCORE_DOUBLE
  return {exp(-x), 0.0f};
#else
  const float y = x > 87.5f ? 87.5f : x;
  const float k = rint(y * 1.442695f);
  const float high = fma(k, -0.693145752f, y);  // exact: that number has 9 zeros at its end
  const float low = k * 1.42860677e-6f;
  const float r = high - low;
  float p = -1.9841270e-4f;  // e^-r - 1 + r, over r^2
  p = fma(p, r, 1.3888889e-3f);
  p = fma(p, r, -8.3333333e-3f);
  p = fma(p, r, 4.1666667e-2f);
  p = fma(p, r, -0.16666667f);
  p = fma(p, r, 0.5f);
  const float rest = (high - r) - low;
  return {x > 87.5f ? 0.0f : power(12583039.0f - k), fma(r * r, p, -r) - rest};
#endif
}

// dsink = - sum of exp(sink - lse) delta over the rows of a head. grid: heads.
template <typename T>
[[kernel]] void attention_sink_gradient(
    device const float* sinks [[buffer(0)]],
    device const float* stats [[buffer(1)]],
    device const float* delta [[buffer(2)]],
    device T* dsinks [[buffer(3)]],
    constant long& queries [[buffer(4)]],
    constant long& heads [[buffer(5)]],
    constant long& batches [[buffer(6)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]]) {
  const uint head = gid.x;
  ExactSum sum = {0.0f, 0.0f};
  for (uint batch = 0; batch < uint(batches); ++batch) {
    for (uint query = simd_lane_id; query < uint(queries); query += 32) {
      const ulong place = (batch * ulong(heads) + head) * queries + query;
      const Exponential e = exponential(stats[2 * place] - sinks[head]);
      const float total = stats[2 * place + 1];
      for (uint i = 0; i < 2; ++i) {
        const float d = i == 0 ? delta[2 * place] : -delta[2 * place + 1];
        const float share = d / total;
        const float left = fma(-share, total, d) / total;
        sum = added_product(sum, e.power, share);
        sum = added_product(sum, e.power, fma(share, e.part, left));
      }
    }
  }
  const float total = rounded(simd_added(sum));
  if (simd_lane_id == 0) {
    dsinks[head] = T(-total);
  }
}

// Attention of few rows over many keys: attention_decode.h has the mathematics.
#include "attention_decode.h"

constant bool is_split [[function_constant(1)]];  // a simdgroup takes a part of the keys and writes sums, not results

// grid: splits, key heads, batch. C: room for depth and width, a multiple of 32.
template <typename T, uint C>
[[kernel]] void attention_decode(
    device const T* q [[buffer(0)]],
    device const T* k [[buffer(1)]],
    device const T* v [[buffer(2)]],
    device const T* bias [[buffer(3)]],
    device const bool* mask [[buffer(4)]],
    device const float* slopes [[buffer(5)]],
    device const float* sinks [[buffer(6)]],
    device T* out [[buffer(7)]],
    device T* rest [[buffer(8)]],
    device float* stats [[buffer(9)]],
    device float* lse [[buffer(10)]],
    device float* parts [[buffer(11)]],
    constant long& queries [[buffer(12)]],
    constant long& keys [[buffer(13)]],
    constant long& key_rows [[buffer(14)]],
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
    constant long& flags [[buffer(27)]],
    constant long& splits [[buffer(28)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float weights[ROWS * 32];
  const uint set = uint(flags);
  const uint key_heads = uint(heads / heads_each);
  const uint batch = gid.z;
  const Short of = {
      set, uint(queries) * uint(heads_each), scale, softcap, uint(depth), uint(width), mask_key};
  const Layout of_q = layout_of(queries, heads, depth, set & QUERY_ROWS_FIRST);
  const Layout of_k = layout_of(key_rows, key_heads, depth, set & KEY_ROWS_FIRST);
  const Layout of_v = layout_of(key_rows, key_heads, width, set & KEY_ROWS_FIRST);
  const Rows<T> of_keys = {k + batch * of_k.batch + gid.y * of_k.head, of_k.row, nullptr, 1, 1.0f};
  const Rows<T> of_values = {v + batch * of_v.batch + gid.y * of_v.head, of_v.row, nullptr, 1, 1.0f};
  Span span = span_of(0, int(queries) - 1, int(low), int(high), int(keys));
  if (is_split) {
    span = part_of(span, gid.x, uint(splits), uint(keys));
  }

  float mine[ROWS * (C / 32)];
  float sums[ROWS * (C / 32)];
  Softmax found[ROWS];
  const uint first_head = gid.y * uint(heads_each);
  const long from_mask = batch * mask_batch + first_head * mask_head;
  const ShortRows<T> rows = {
      set,
      uint(queries),
      set & HAS_BIAS ? bias + from_mask : bias,
      set & HAS_MASK ? mask + from_mask : mask,
      set & HAS_SLOPES ? slopes + (set & SLOPES_BY_BATCH ? batch * uint(heads) : 0) + first_head : slopes,
      mask_head,
      mask_query,
      int(keys) - int(queries),
      int(low),
      int(high)};
  for (uint r = 0; r < of.rows; ++r) {
    const uint query = r % uint(queries);
    const uint head = first_head + r / uint(queries);
    device const T* from = q + batch * of_q.batch + head * of_q.head + query * of_q.row;
#pragma unroll
    for (uint c = 0; c < C / 32; ++c) {
      mine[r * (C / 32) + c] = is_whole || c * 32 + lane < uint(depth) ? float(from[c * 32 + lane]) : 0.0f;
      sums[r * (C / 32) + c] = 0.0f;
    }
    const bool begins = !is_split && (set & HAS_SINKS);
    found[r] = {begins ? sinks[head] : -INFINITY, begins ? 1.0f : 0.0f, 0.0f};
  }
  attend_short<T, T, C>(mine, sums, found, rows, of, of_keys, of_values, span.begin, span.end, weights, lane);
  const Layout of_out = layout_of(queries, heads, width, set & QUERY_ROWS_FIRST);
  for (uint r = 0; r < of.rows; ++r) {
    const uint query = r % uint(queries);
    const uint head = first_head + r / uint(queries);
    const ulong place = (batch * ulong(heads) + head) * queries + query;
    thread const float* mine_sums = sums + r * (C / 32);
    if (is_split) {
      finish_part(mine_sums, found[r], uint(width), parts + (place * splits + gid.x) * (width + 2), lane);
      continue;
    }
    if (lane == 0) {
      lse[place] = log_sum(found[r]);
      const Softmax given = kept(found[r]);
      stats[2 * place] = given.top;
      stats[2 * place + 1] = given.sum;
    }
    const ulong to = batch * of_out.batch + head * of_out.head + query * of_out.row;
    const bool keeps = set & KEEPS_REST;
    finish_short<T, C>(mine_sums, found[r], uint(width), out + to, rest + (keeps ? to : 0), keeps, lane);
  }
}

// Attention over a paged cache: attention_forward.h and attention_decode.h have the mathematics. Sequence s has the
// queries starts[s] to starts[s + 1], the last of its lengths[s] tokens; a query sees the tokens up to its own.
#include "attention_decode.h"

constant bool is_split [[function_constant(1)]];

// What one sequence has. A table with a wrong block, or a length that it has no room for, is not followed: the rows of
// such a sequence are NaN.
struct Sequence {
  uint first;    // query
  uint queries;
  uint keys;
  bool is_wrong;
};

inline Sequence sequence_of(
    device const int* starts,
    device const int* lengths,
    device const int* table,
    uint s,
    uint total,
    uint block,
    uint blocks,
    uint most,
    uint lane) {
  const int first = starts[s];
  const int last = starts[s + 1];
  const int keys = lengths[s];
  bool is_wrong = first < 0 || last < first || last > int(total) || keys < 0;
  is_wrong = is_wrong || ulong(max(keys, 0)) > ulong(most) * block;
  if (!is_wrong) {
    const uint count = (uint(keys) + block - 1) / block;
    for (uint i = lane; i < count; i += 32) {
      is_wrong = is_wrong || uint(table[i]) >= blocks;
    }
  }
  is_wrong = simd_any(is_wrong);
  const bool has_rows = first >= 0 && last >= first && last <= int(total);
  return {has_rows ? uint(first) : 0, has_rows ? uint(last - first) : 0, is_wrong ? 0 : uint(keys), is_wrong};
}

// Notes the first sequence that is wrong: {1, sequence, length} in `errors`, or {1, sequences, start} for the first or
// last start. One simdgroup.
[[kernel]] void attention_paged_check(
    device const int* starts [[buffer(0)]],
    device const int* lengths [[buffer(1)]],
    device const int* tables [[buffer(2)]],
    device long* errors [[buffer(3)]],
    constant long& sequences [[buffer(4)]],
    constant long& total [[buffer(5)]],
    constant long& block [[buffer(6)]],
    constant long& blocks [[buffer(7)]],
    constant long& most [[buffer(8)]],
    constant long& most_queries [[buffer(9)]],
    constant long& longest [[buffer(10)]],
    uint lane [[thread_index_in_simdgroup]]) {
  long wrong = -1;
  for (uint s = 0; s < uint(sequences) && wrong < 0; ++s) {
    const Sequence found = sequence_of(
        starts, lengths, tables + s * most, s, uint(total), uint(block), uint(blocks), uint(most), lane);
    const bool is_long = long(found.keys) > longest || long(found.queries) > most_queries;
    wrong = found.is_wrong || is_long ? long(s) : wrong;
  }
  const bool is_short = wrong < 0 && (starts[0] != 0 || starts[sequences] != int(total));
  if (lane == 0) {
    errors[0] = wrong >= 0 || is_short ? 1 : 0;
    errors[1] = wrong >= 0 ? wrong : long(sequences);
    errors[2] = wrong >= 0 ? long(lengths[wrong]) : long(starts[0] != 0 ? starts[0] : starts[sequences]);
  }
}

// The keys of one head. Where is_parted they lie as (heads, depth / part, block, part) in a block, else as
// (block, heads, depth).
template <typename K>
inline Rows<K> paged_keys(
    device const K* cache,
    uint head,
    uint heads,
    uint depth,
    device const int* table,
    uint block,
    uint part,
    float scale) {
  const ulong size = ulong(block) * heads * depth;
  if (is_parted) {
    return {cache + ulong(head) * depth * block, part, table, block, scale, size, part, 1, ulong(block) * part};
  }
  return {cache + ulong(head) * depth, ulong(heads) * depth, table, block, scale, size, part, 1, 0};
}

// The values of one head: (heads, width, block) where is_parted, else (block, heads, width).
template <typename K>
inline Rows<K> paged_values(
    device const K* cache, uint head, uint heads, uint width, device const int* table, uint block, float scale) {
  const ulong size = ulong(block) * heads * width;
  if (is_parted) {
    return {cache + ulong(head) * width * block, 1, table, block, scale, size, width, block, 0};
  }
  return {cache + ulong(head) * width, ulong(heads) * width, table, block, scale, size, width, 1, 0};
}

// Lanes are the elements of a row. Rows are the queries of all query heads of a key head, 8 at most.
// grid: splits, key heads, sequences.
template <typename T, typename K, uint C>
[[kernel]] void attention_paged_decode(
    device const T* q [[buffer(0)]],
    device const K* k [[buffer(1)]],
    device const K* v [[buffer(2)]],
    device const float* slopes [[buffer(3)]],
    device const float* sinks [[buffer(4)]],
    device const int* starts [[buffer(5)]],
    device const int* lengths [[buffer(6)]],
    device const int* tables [[buffer(7)]],
    device T* out [[buffer(8)]],
    device float* parts [[buffer(9)]],
    constant long& total [[buffer(10)]],
    constant long& heads [[buffer(11)]],
    constant long& heads_each [[buffer(12)]],
    constant long& depth [[buffer(13)]],
    constant long& width [[buffer(14)]],
    constant float& scale [[buffer(15)]],
    constant float& softcap [[buffer(16)]],
    constant long& left [[buffer(17)]],
    constant long& flags [[buffer(18)]],
    constant long& splits [[buffer(19)]],
    constant long& block [[buffer(20)]],
    constant long& blocks [[buffer(21)]],
    constant long& most [[buffer(22)]],
    constant long& part [[buffer(23)]],
    constant float& k_scale [[buffer(24)]],
    constant float& v_scale [[buffer(25)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float weights[ROWS * 32];
  const uint set = uint(flags);
  device const int* table = tables + gid.z * most;
  const Sequence sequence = sequence_of(
      starts, lengths, table, gid.z, uint(total), uint(block), uint(blocks), uint(most), lane);
  const uint key_heads = uint(heads / heads_each);
  const uint queries = min(sequence.queries, ROWS / uint(heads_each));  // more only where the caller promised less
  const Short of = {
      set, queries * uint(heads_each), scale, softcap, uint(depth), uint(width), 0};
  const int place = int(sequence.keys) - int(queries);
  Span span = span_of(0, int(queries) - 1, place - int(left), place, int(sequence.keys));
  if (is_split) {
    span = part_of(span, gid.x, uint(splits), sequence.keys);
  }
  const uint first_head = gid.y * uint(heads_each);
  float mine[ROWS * (C / 32)];
  float sums[ROWS * (C / 32)];
  Softmax found[ROWS];
  for (uint r = 0; r < of.rows; ++r) {
    const uint head = first_head + r / queries;
    device const T* from = q + ((sequence.first + r % queries) * ulong(heads) + head) * depth;
#pragma unroll
    for (uint c = 0; c < C / 32; ++c) {
      mine[r * (C / 32) + c] = is_whole || c * 32 + lane < uint(depth) ? float(from[c * 32 + lane]) : 0.0f;
      sums[r * (C / 32) + c] = 0.0f;
    }
    const bool begins = !is_split && (set & HAS_SINKS);
    found[r] = {begins ? sinks[head] : -INFINITY, begins ? 1.0f : 0.0f, 0.0f};
  }
  const Rows<K> keys = paged_keys(k, gid.y, key_heads, uint(depth), table, uint(block), uint(part), k_scale);
  const Rows<K> values = paged_values(v, gid.y, key_heads, uint(width), table, uint(block), v_scale);
  const ShortRows<T> rows = {
      set, max(queries, 1u), q, nullptr, set & HAS_SLOPES ? slopes + first_head : slopes, 0, 0, place,
      place - int(left), place};
  attend_short<T, K, C>(mine, sums, found, rows, of, keys, values, span.begin, span.end, weights, lane);
  for (uint r = 0; r < of.rows; ++r) {
    const ulong row = (sequence.first + r % queries) * ulong(heads) + first_head + r / queries;
    thread const float* own = sums + r * (C / 32);
    found[r].sum = sequence.is_wrong ? NAN : found[r].sum;
    if (is_split) {
      finish_part(own, found[r], uint(width), parts + (row * splits + gid.x) * (width + 2), lane);
    } else {
      finish_short<T, C>(own, found[r], uint(width), out + row * width, out, false, lane);
    }
  }
}

// Lanes are rows: 32 for each simdgroup, of the queries of all query heads of a key head. grid: blocks of rows times
// splits, key heads, sequences.
template <typename T, typename K, uint C>
[[kernel]] void attention_paged_forward(
    device const T* q [[buffer(0)]],
    device const K* k [[buffer(1)]],
    device const K* v [[buffer(2)]],
    device const float* slopes [[buffer(3)]],
    device const float* sinks [[buffer(4)]],
    device const int* starts [[buffer(5)]],
    device const int* lengths [[buffer(6)]],
    device const int* tables [[buffer(7)]],
    device T* out [[buffer(8)]],
    device float* parts [[buffer(9)]],
    constant long& total [[buffer(10)]],
    constant long& heads [[buffer(11)]],
    constant long& heads_each [[buffer(12)]],
    constant long& depth [[buffer(13)]],
    constant long& width [[buffer(14)]],
    constant float& scale [[buffer(15)]],
    constant float& softcap [[buffer(16)]],
    constant long& left [[buffer(17)]],
    constant long& flags [[buffer(18)]],
    constant long& splits [[buffer(19)]],
    constant long& block [[buffer(20)]],
    constant long& blocks [[buffer(21)]],
    constant long& most [[buffer(22)]],
    constant long& part [[buffer(23)]],
    constant float& k_scale [[buffer(24)]],
    constant float& v_scale [[buffer(25)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float tile[BLOCK * C];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint set = uint(flags);
  device const int* table = tables + gid.z * most;
  const Sequence sequence = sequence_of(
      starts, lengths, table, gid.z, uint(total), uint(block), uint(blocks), uint(most), simd_lane_id);
  const uint key_heads = uint(heads / heads_each);
  const uint queries = sequence.queries;
  const uint rows = queries * uint(heads_each);
  const uint split = is_split ? gid.x % uint(splits) : 0;
  const uint first = (is_split ? gid.x / uint(splits) : gid.x) * 32 * simd_groups;
  if (first >= rows) {
    return;
  }
  // Rows go through the heads of a query first: those of a simdgroup see nearly the same keys.
  const uint row = first + simd_group_id * 32 + simd_lane_id;
  const uint mine_row = min(row, rows - 1);
  const uint query = mine_row / uint(heads_each);
  const uint head = gid.y * uint(heads_each) + mine_row % uint(heads_each);
  const int place = int(sequence.keys) - int(queries);
  const int low = place - int(left);
  const int lowest = int(first / uint(heads_each));
  const int highest = int((min(first + 32 * simd_groups, rows) - 1) / uint(heads_each));
  Span span = span_of(lowest, highest, low, place, int(sequence.keys));
  if (is_split) {
    span = part_of(span, split, uint(splits), sequence.keys);
  }
  const Rows<K> keys = paged_keys(k, gid.y, key_heads, uint(depth), table, uint(block), uint(part), k_scale);
  const Rows<K> values = paged_values(v, gid.y, key_heads, uint(width), table, uint(block), v_scale);
  Scores<T> how = {
      set, softcap, 0.0f, q, nullptr, 0, int(query) + place, int(query) + low, int(query) + place};
  if (has_extras && (set & HAS_SLOPES)) {
    how.slope = slopes[head];
  }
  float mine[C];
  float sums_high[C];
  float sums_low[C];
  const Sums sums = {sums_high, sums_low};
  const ulong to = (sequence.first + query) * ulong(heads) + head;
  read_row(mine, q + to * depth, uint(depth));
  clear_row(sums, uint(width));
  Softmax found = {-INFINITY, 0.0f, 0.0f};
  if (!is_split && (set & HAS_SINKS)) {
    found = {sinks[head], 1.0f, 0.0f};
  }
  const Dropout none = {uint2(0u), 0.0f, 0};
  const Over<T, K> over = {keys, values, how, none, scale, uint(depth), uint(width), tile};
  found = attend<T, K, true>(mine, sums, found, over, query, span, at);
  if (row >= rows) {
    return;
  }
  found.sum = sequence.is_wrong ? NAN : found.sum;
  if (is_split) {
    device float* to_part = parts + (to * splits + split) * (width + 2);
    to_part[0] = found.top;
    to_part[1] = found.total();
    write_row(to_part + 2, sums, uint(width));
  } else {
    finish(sums, found, uint(width), out + to * width, out, false);
  }
}

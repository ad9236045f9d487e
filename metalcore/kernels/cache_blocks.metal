// target[to] = source[from] for pairs (from, to) of whole blocks, bit for bit. Both may be one array: pairs are then
// independent, no block is written that another pair reads. A wrong block number is not followed.
#include "index.h"

// target[to] = source[from] for each pair (from, to) of whole blocks of `size` elements; group.x takes `each` of them.
template <typename T, typename I>
[[kernel]] void copy_pairs(
    device const T* source [[buffer(0)]],
    device const I* mapping [[buffer(1)]],
    device T* target [[buffer(2)]],
    constant long& size [[buffer(3)]],
    constant long& source_blocks [[buffer(4)]],
    constant long& target_blocks [[buffer(5)]],
    constant long& each [[buffer(6)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group_size [[threads_per_threadgroup]]) {
  const long from = long(mapping[2 * ulong(group.y)]);
  const long to = long(mapping[2 * ulong(group.y) + 1]);
  if (from < 0 || from >= source_blocks || to < 0 || to >= target_blocks) {
    return;
  }
  const long begin = group.x * each;
  const uint mine = uint(min(each, size - begin));
  source += from * size + begin;
  target += to * size + begin;
  for (uint i = lid.x; i < mine; i += group_size.x) {
    target[i] = source[i];
  }
}

// The same into a new array: out is `old` but for the blocks that a pair names. group.y is a block.
template <typename T, typename I>
[[kernel]] void with_pairs(
    device const T* source [[buffer(0)]],
    device const T* old [[buffer(1)]],
    device const I* mapping [[buffer(2)]],
    device T* out [[buffer(3)]],
    constant long& pairs [[buffer(4)]],
    constant long& size [[buffer(5)]],
    constant long& source_blocks [[buffer(6)]],
    constant long& each [[buffer(7)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group_size [[threads_per_threadgroup]]) {
  const long block = group.y;
  long from = -1;
  for (long p = 0; p < pairs; p++) {
    const long named = long(mapping[2 * p]);
    const bool is_mine = long(mapping[2 * p + 1]) == block && named >= 0 && named < source_blocks;
    from = is_mine ? named : from;
  }
  const long begin = group.x * each;
  const uint mine = uint(min(each, size - begin));
  device const T* row = (from < 0 ? old + block * size : source + from * size) + begin;
  out += block * size + begin;
  for (uint i = lid.x; i < mine; i += group_size.x) {
    out[i] = row[i];
  }
}

// errors: a row {1, 4 * pair + kind, block} for each `each` pairs. Kinds: 0 source out of range, 1 target out of range,
// 2 target of an earlier pair too, 3 source of another pair (looked for where both are one array).
template <typename I>
[[kernel]] void check_pairs(
    device const I* mapping [[buffer(0)]],
    device long* errors [[buffer(1)]],
    constant long& pairs [[buffer(2)]],
    constant long& source_blocks [[buffer(3)]],
    constant long& target_blocks [[buffer(4)]],
    constant long& is_one_array [[buffer(5)]],
    constant long& each [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup uint partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint none = 0xffffffffu;
  const uint count = uint(pairs);
  const uint end = uint(min((group + 1) * each, pairs));
  uint first = none;
  for (uint p = uint(group * each) + lid; p < end; p += group_size) {
    const long from = long(mapping[2 * p]);
    const long to = long(mapping[2 * p + 1]);
    uint kind = from < 0 || from >= source_blocks ? 0 : to < 0 || to >= target_blocks ? 1 : 4;
    for (uint q = 0; q < count; q++) {
      const bool is_twice = q < p && long(mapping[2 * q + 1]) == to;
      const bool is_source = is_one_array != 0 && q != p && long(mapping[2 * q]) == to;
      kind = min(kind, is_twice ? 2u : is_source ? 3u : 4u);
    }
    first = min(first, kind < 4 ? 4 * p + kind : none);
  }
  first = group_least(first, partial, at);
  if (lid == 0) {
    const bool is_wrong = first != none;
    errors[3 * group] = is_wrong;
    errors[3 * group + 1] = is_wrong ? long(first) : 0;
    errors[3 * group + 2] = is_wrong ? long(mapping[2 * (first / 4) + (first % 4 > 0)]) : 0;
  }
}

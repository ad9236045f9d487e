// key[t], value[t] = the row of token t in caches of [blocks, block_size, width]. Tokens of all sequences stand one
// after the other: token p of sequence s is row p % block_size of block tables[s, p / block_size]. A wrong block number
// is not followed.
#include "fp8.h"
#include "index.h"

// What a cache holds: the row's own type, or e4m3 of the row over a scale.
template <typename T>
inline T taken(T x, float scale) {
  return x;
}
template <typename T>
inline T taken(uchar x, float scale) {
  return T(e4m3(x) * scale);
}

// One simdgroup: starts[s] = the sum of the lengths before s, each taken as 0 to `most`. starts has one element more
// than there are sequences. errors: {1, -1 - sequence, length} of the first wrong length, then {1, 0, sum} where the
// sum is not `total`.
template <typename L>
[[kernel]] void sequence_starts(
    device const L* lengths [[buffer(0)]],
    device long* starts [[buffer(1)]],
    device long* errors [[buffer(2)]],
    constant long& sequences [[buffer(3)]],
    constant long& most [[buffer(4)]],
    constant long& total [[buffer(5)]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint count = uint(sequences);
  uint sum = 0;
  uint first = count;
  for (uint begin = 0; begin < count; begin += 32) {
    const uint s = begin + lane;
    const long given = s < count ? long(lengths[s]) : 0;
    const uint length = uint(clamp(given, 0l, most));
    first = given == long(length) ? first : min(first, s);
    const uint before = simd_prefix_exclusive_sum(length);
    if (s < count) {
      starts[s] = sum + before;
    }
    sum += simd_sum(length);
  }
  first = simd_min(first);
  if (lane == 0) {
    starts[count] = sum;
    report_index(errors, lengths, first, count);
    errors[1] = -1 - errors[1];
    errors[3] = sum != total;
    errors[4] = 0;
    errors[5] = sum;
  }
}

// errors: a row {1, sequence * most + place, block} for each sequence, of the first wrong block that it uses.
template <typename I>
[[kernel]] void check_tables(
    device const I* tables [[buffer(0)]],
    device const long* starts [[buffer(1)]],
    device long* errors [[buffer(2)]],
    constant long& most [[buffer(3)]],
    constant long& block_size [[buffer(4)]],
    constant long& blocks [[buffer(5)]],
    uint sequence [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const long length = starts[sequence + 1] - starts[sequence];
  const uint used = uint((length + block_size - 1) / block_size);
  device const I* table = tables + sequence * most;
  const uint first = simd_min(first_outside(table, lane, used, 32u, blocks));
  if (lane == 0) {
    report_index(errors + 3 * sequence, table, first, used);
    errors[3 * sequence + 1] += sequence * most;
  }
}

// A threadgroup takes `each` tokens. What a wrong block would give, and tokens beyond the last sequence, are NaN.
template <typename C, typename T, typename I>
[[kernel]] void gather_tokens(
    device const C* key_cache [[buffer(0)]],
    device const C* value_cache [[buffer(1)]],
    device const I* tables [[buffer(2)]],
    device const long* starts [[buffer(3)]],
    device T* key [[buffer(4)]],
    device T* value [[buffer(5)]],
    constant long& sequences [[buffer(6)]],
    constant long& most [[buffer(7)]],
    constant long& block_size [[buffer(8)]],
    constant long& blocks [[buffer(9)]],
    constant long& key_width [[buffer(10)]],
    constant long& value_width [[buffer(11)]],
    constant long& total [[buffer(12)]],
    constant long& each [[buffer(13)]],
    constant float& k_scale [[buffer(14)]],
    constant float& v_scale [[buffer(15)]],
    uint group [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  const long begin = group * each;
  const long end = min(begin + each, total);
  long s = first_not_below(starts, sequences + 1, begin + 1) - 1;
  for (long t = begin; t < end; t++) {
    while (s < sequences && t >= starts[s + 1]) {
      s++;
    }
    long block = -1;
    long position = 0;
    if (s < sequences) {
      position = t - starts[s];
      block = long(tables[s * most + position / block_size]);
    }
    const bool is_in = block >= 0 && block < blocks;
    const long row = is_in ? block * block_size + position % block_size : 0;
    device const C* keys = key_cache + row * key_width;
    device const C* values = value_cache + row * value_width;
    for (uint i = lid; i < uint(key_width); i += group_size) {
      key[t * key_width + i] = is_in ? taken<T>(keys[i], k_scale) : T(NAN);
    }
    for (uint i = lid; i < uint(value_width); i += group_size) {
      value[t * value_width + i] = is_in ? taken<T>(values[i], v_scale) : T(NAN);
    }
  }
}

// cache[slot] = key (or value) of a token, over a scale where the cache is fp8. slot = block * block_size + offset.
// A slot that is wrong is not followed.
//
// A cache is [blocks, width / x, block_size, x], with width = heads * head_dim. x = width: rows lie one after the
// other, [blocks, block_size, heads, head_dim]; x = 1: the values of Hugging Face; else its keys.
#include "fp8.h"
#include "index.h"

constant bool is_rows [[function_constant(0)]];  // x is the width

// A cache has the row's own type, or e4m3 of the row over a scale.
template <typename T>
inline void put(device T* to, T x, float scale) {
  *to = x;
}
template <typename T>
inline void put(device uchar* to, T x, float scale) {
  *to = to_e4m3(precise::divide(float(x), scale));
}

// The threads of a group write one row to its slot.
template <typename T, typename C>
inline void put_row(
    device const T* row, device C* cache, long slot, uint width, uint block_size, uint x, float scale, uint lid,
    uint group_size) {
  if (is_rows) {
    device C* to = cache + slot * width;
    for (uint i = lid; i < width; i += group_size) {
      put(to + i, row[i], scale);
    }
    return;
  }
  const long block = slot / block_size;
  device C* to = cache + block * width * block_size + (slot - block * block_size) * x;
  for (uint i = lid; i < width; i += group_size) {
    const uint part = i / x;
    put(to + ulong(part) * block_size * x + (i - part * x), row[i], scale);
  }
}

// A threadgroup writes `each` tokens, in place. Slots below 0 or past the cache are skipped.
template <typename T, typename C, typename I>
[[kernel]] void cache_tokens(
    device const T* key [[buffer(0)]],
    device const T* value [[buffer(1)]],
    device const I* slots [[buffer(2)]],
    device C* key_cache [[buffer(3)]],
    device C* value_cache [[buffer(4)]],
    constant long& tokens [[buffer(5)]],
    constant long& key_width [[buffer(6)]],
    constant long& value_width [[buffer(7)]],
    constant long& key_x [[buffer(8)]],
    constant long& value_x [[buffer(9)]],
    constant long& block_size [[buffer(10)]],
    constant long& count [[buffer(11)]],
    constant long& each [[buffer(12)]],
    constant float& k_scale [[buffer(13)]],
    constant float& v_scale [[buffer(14)]],
    uint group [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  const long end = min((group + 1) * each, tokens);
  for (long t = group * each; t < end; t++) {
    const long slot = long(slots[t]);
    if (slot < 0 || slot >= count) {
      continue;
    }
    put_row(
        key + t * key_width, key_cache, slot, uint(key_width), uint(block_size), uint(key_x), k_scale, lid, group_size);
    put_row(
        value + t * value_width, value_cache, slot, uint(value_width), uint(block_size), uint(value_x), v_scale, lid,
        group_size);
  }
}

// The same into new caches, where arrays cannot be written in place: a threadgroup copies a block and then writes the
// tokens whose slots lie in it, in their order.
template <typename T, typename C, typename I>
[[kernel]] void cache_with_tokens(
    device const T* key [[buffer(0)]],
    device const T* value [[buffer(1)]],
    device const I* slots [[buffer(2)]],
    device const C* old_keys [[buffer(3)]],
    device const C* old_values [[buffer(4)]],
    device C* key_cache [[buffer(5)]],
    device C* value_cache [[buffer(6)]],
    constant long& tokens [[buffer(7)]],
    constant long& key_width [[buffer(8)]],
    constant long& value_width [[buffer(9)]],
    constant long& key_x [[buffer(10)]],
    constant long& value_x [[buffer(11)]],
    constant long& block_size [[buffer(12)]],
    constant float& k_scale [[buffer(13)]],
    constant float& v_scale [[buffer(14)]],
    uint group [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  const long first = group * block_size;
  const uint key_size = uint(key_width * block_size);
  const uint value_size = uint(value_width * block_size);
  for (uint i = lid; i < key_size; i += group_size) {
    key_cache[first * key_width + i] = old_keys[first * key_width + i];
  }
  for (uint i = lid; i < value_size; i += group_size) {
    value_cache[first * value_width + i] = old_values[first * value_width + i];
  }
  threadgroup_barrier(mem_flags::mem_device);
  for (long t = 0; t < tokens; t++) {
    const long slot = long(slots[t]);
    if (slot < first || slot >= first + block_size) {
      continue;
    }
    put_row(
        key + t * key_width, key_cache, slot, uint(key_width), uint(block_size), uint(key_x), k_scale, lid, group_size);
    put_row(
        value + t * value_width, value_cache, slot, uint(value_width), uint(block_size), uint(value_x), v_scale, lid,
        group_size);
  }
}

// errors: a row {1, token, slot} for each block of `each` tokens, of the first slot that is not in -1 to count - 1.
template <typename I>
[[kernel]] void check_slots(
    device const I* slots [[buffer(0)]],
    device long* errors [[buffer(1)]],
    constant long& tokens [[buffer(2)]],
    constant long& count [[buffer(3)]],
    constant long& each [[buffer(4)]],
    uint group [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup uint partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint begin = uint(group * each);
  const uint end = uint(min(begin + each, tokens));
  uint first = end;
  for (uint t = begin + lid; t < end; t += group_size) {
    const long slot = long(slots[t]);
    first = slot >= -1 && slot < count ? first : min(first, t);
  }
  first = group_least(first, partial, at);
  if (lid == 0) {
    report_index(errors + 3 * group, slots, first, end);
  }
}

// y[o, r, k] = x[o, r, k] + sum over i with index[o, i, k] = r of src[o, i, k], along the middle one of three dimensions
// (outer, n, inner). dx = g; dsrc is what gather.metal picks of g.
#include "index.h"

constant bool is_last [[function_constant(0)]];  // inner is 1

constant uint IS_SHARED = 1;  // one index for all of outer and inner
constant uint IS_PART = 2;    // the index covers only a part of outer and inner
constant uint HAS_START = 4;  // sums begin with `start`, else with 0

// sums[o, r, k] = start[o, r, k] + sum over i with index[o, i, k] = r of src[o, i, k], in the order of i.
// Where inner is 1 a threadgroup has a row o, and its first thread adds; else a thread has a column (o, k) to itself.
// Of a partial index, (high, low) of the column must lie below (its high, its low).
template <typename T, typename I>
[[kernel]] void add_columns(
    device const T* start [[buffer(0)]],
    device const I* index [[buffer(1)]],
    device const T* src [[buffer(2)]],
    device float* sums [[buffer(3)]],
    constant long& outer [[buffer(4)]],
    constant long& m [[buffer(5)]],
    constant long& n [[buffer(6)]],
    constant long& inner [[buffer(7)]],
    constant long& outer_low [[buffer(8)]],
    constant long& index_outer_low [[buffer(9)]],
    constant long& index_outer_high [[buffer(10)]],
    constant long& inner_low [[buffer(11)]],
    constant long& index_inner_low [[buffer(12)]],
    constant long& index_inner_high [[buffer(13)]],
    constant long& options [[buffer(14)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group_size [[threads_per_threadgroup]]) {
  const bool is_shared = options & IS_SHARED;
  const bool is_part = options & IS_PART;
  const bool has_start = options & HAS_START;
  const long o = is_last ? group.x : group.y;
  const long k = is_last ? 0 : group.x * group_size.x + lid.x;
  device float* to = sums + o * n * inner + k;
  device const T* from = start + o * n * inner + k;
  if (is_last) {
    for (uint r = lid.x; r < uint(n); r += group_size.x) {
      to[r] = has_start ? float(from[r]) : 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_device);
    if (lid.x > 0) {
      return;
    }
  } else if (k < inner) {
    for (long r = 0; r < n; r++) {
      to[r * inner] = has_start ? float(from[r * inner]) : 0.0f;
    }
  } else {
    return;
  }
  long index_o = o;
  long index_k = k;
  long index_inner = inner;
  if (is_part) {
    const long low = o % outer_low;
    const long high = o / outer_low;
    const long inner_part = k % inner_low;
    const long inner_rest = k / inner_low;
    if (low >= index_outer_low || high >= index_outer_high) {
      return;
    }
    if (inner_part >= index_inner_low || inner_rest >= index_inner_high) {
      return;
    }
    index_inner = index_inner_low * index_inner_high;
    index_o = high * index_outer_low + low;
    index_k = inner_rest * index_inner_low + inner_part;
  }
  index += is_shared ? 0 : index_o * m * index_inner + index_k;
  src += index_o * m * index_inner + index_k;
  for (long i = 0; i < m; i++) {
    const long place = long(index[i * index_inner]);
    if (place >= 0 && place < n) {
      to[place * inner] += float(src[i * index_inner]);
    }
  }
}

template <typename T>
[[kernel]] void copy(
    device const T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    constant long& count [[buffer(2)]],
    constant long& each [[buffer(3)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  const long begin = block * each;
  const uint mine = uint(min(each, count - begin));
  for (uint i = lid; i < mine; i += group_size) {
    y[begin + i] = x[begin + i];
  }
}

// Looks for an index that is wrong, where nothing was picked. errors: a row for each block of `each`.
template <typename I>
[[kernel]] void check_index(
    device const I* index [[buffer(0)]],
    device long* errors [[buffer(1)]],
    constant long& count [[buffer(2)]],
    constant long& n [[buffer(3)]],
    constant long& each [[buffer(4)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup uint partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint begin = uint(block * each);
  const uint end = uint(min(begin + each, count));
  const uint first = group_least(first_outside(index, begin + lid, end, group_size, n), partial, at);
  if (lid == 0) {
    report_index(errors + 3 * block, index, first, end);
  }
}

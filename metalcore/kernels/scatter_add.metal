// y[o, r, k] = x[o, r, k] + sum over i with index[o, i, k] = r of src[o, i, k];  dx = g,  dsrc[o, i, k] = g[o, index, k]
#include "indexed.h"

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

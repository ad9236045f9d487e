// y[o, i, k] = x[o, index[o, i, k], k], along the middle one of three dimensions (outer, n, inner). The index has
// (outer, m, inner) elements, or m that hold for all (index_select). The gradient is in scatter_add.metal.
#include "index.h"

constant bool is_last [[function_constant(0)]];  // inner is 1

// out[o, i, k] = x[o, index[o, i, k], k]. A threadgroup takes `each` rows; a row is all i of one o where inner is 1,
// else all k of one (o, i). A wrong index picks nothing (a float's NaN) and is reported: errors = {1, place, value}.
template <typename T, typename I>
[[kernel]] void pick(
    device const T* x [[buffer(0)]],
    device const I* index [[buffer(1)]],
    device T* out [[buffer(2)]],
    device long* errors [[buffer(3)]],
    constant long& rows [[buffer(4)]],
    constant long& m [[buffer(5)]],
    constant long& n [[buffer(6)]],
    constant long& inner [[buffer(7)]],
    constant long& each [[buffer(8)]],
    constant long& options [[buffer(9)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup uint partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const bool is_shared = options != 0;  // one index for all of outer and inner
  const uint run = uint(is_last ? m : inner);
  const long end = min((block + 1) * each, rows);
  const uint none = 0xffffffffu;
  uint first = none;
  long row = block * each;
  if (is_last && !is_shared && m == 1) {  // one element a row: a thread takes a row
    for (uint j = lid; j < uint(end - row); j += group_size) {
      const long place = long(index[row + j]);
      const bool is_in = place >= 0 && place < n;
      first = is_in ? first : min(first, uint(row) + j);
      const T value = x[(row + j) * n + (is_in ? place : 0)];
      out[row + j] = is_in ? value : T(NAN);
    }
    row = end;
  }
  for (; row < end; row++) {
    const long o = is_last ? row : row / m;
    const long i = is_last ? 0 : row % m;
    device const T* from = x + o * n * inner;
    device T* to = out + row * run;
    if (is_shared && !is_last) {
      const long at_row = long(index[i]);
      const bool is_in = at_row >= 0 && at_row < n;
      if (!is_in) {
        first = min(first, uint(i));
      }
      for (uint j = lid; j < run; j += group_size) {
        to[j] = is_in ? from[at_row * inner + j] : T(NAN);
      }
    } else {
      const long before = is_shared ? 0 : row * run;
      for (uint j = lid; j < run; j += group_size) {
        const long place = long(index[before + j]);
        const bool is_in = place >= 0 && place < n;
        first = is_in ? first : min(first, uint(before) + j);
        const uint safe = is_in ? uint(place) : 0;
        const T value = is_last ? from[safe] : from[ulong(safe) * ulong(inner) + j];
        to[j] = is_in ? value : T(NAN);
      }
    }
  }
  first = group_least(first, partial, at);
  if (lid == 0) {
    report_index(errors + 3 * block, index, first, none);
  }
}

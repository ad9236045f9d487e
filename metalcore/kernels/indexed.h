// Elements picked by an index, and sums at the places of an index, along the middle one of three dimensions
// (outer, n, inner). The index has (outer, m, inner) elements, or m that hold for all.
#pragma once
#include "index.h"

constant bool is_shared [[function_constant(0)]];  // one index for all of outer and inner
constant bool is_last [[function_constant(1)]];    // inner is 1
constant bool is_part [[function_constant(2)]];    // the index covers only a part of outer and inner
constant bool has_start [[function_constant(3)]];  // sums begin with `start`, else with 0

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
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup uint partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
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
    uint3 group [[threadgroup_position_in_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group_size [[threads_per_threadgroup]]) {
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

// sums[o, r, k] = sum over the places i of r in the index of src[o, i, k]: one index for all, sorted, so that each row
// is one walk. A threadgroup takes `each` rows of one o.
template <typename T, typename I>
[[kernel]] void add_rows(
    device const I* sorted [[buffer(0)]],
    device const long* order [[buffer(1)]],
    device const T* src [[buffer(2)]],
    device T* sums [[buffer(3)]],
    constant long& m [[buffer(4)]],
    constant long& n [[buffer(5)]],
    constant long& inner [[buffer(6)]],
    constant long& each [[buffer(7)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group_size [[threads_per_threadgroup]]) {
  const long first = group.x * each;
  const long last = min(first + each, n);
  src += group.y * m * inner;
  sums += group.y * n * inner;
  long at = first_not_below(sorted, m, first);
  for (long row = first; row < last; row++) {
    long end = at;
    while (end < m && long(sorted[end]) == row) {
      end++;
    }
    device T* to = sums + row * inner;
    if (end == at) {
      for (uint k = lid.x; k < uint(inner); k += group_size.x) {
        to[k] = T(0.0f);
      }
    } else if (end == at + 1) {
      device const T* from = src + order[at] * inner;
      for (uint k = lid.x; k < uint(inner); k += group_size.x) {
        to[k] = from[k];
      }
    } else {
      for (uint k = lid.x; k < uint(inner); k += group_size.x) {
        float sum = 0.0f;
        for (long p = at; p < end; p++) {
          sum += float(src[order[p] * inner + k]);
        }
        to[k] = T(sum);
      }
    }
    at = end;
  }
}

// Indices that come from data: a wrong one is not followed, and the first one is reported.
#pragma once
#include "group.h"

// The first of index[begin], index[begin + step], ... below `end` that is not in 0 to rows - 1, or `end`.
template <typename I>
inline uint first_outside(device const I* index, uint begin, uint end, uint step, long rows) {
  uint first = end;
  for (uint i = begin; i < end; i += step) {
    const long row = long(index[i]);
    first = row >= 0 && row < rows ? first : min(first, i);
  }
  return first;
}

// errors = {1, position, value}, or zeros where `first` is no position below `count`.
template <typename I>
inline void report_index(device long* errors, device const I* index, uint first, ulong count) {
  const bool is_wrong = first < count;
  errors[0] = is_wrong;
  errors[1] = is_wrong ? long(first) : 0;
  errors[2] = is_wrong ? long(index[first]) : 0;
}

// The first place in a sorted index whose value is not below `row`.
template <typename I>
inline long first_not_below(device const I* sorted, long count, long row) {
  long at = 0;
  for (long above = count; at < above;) {
    const long middle = (at + above) / 2;
    if (long(sorted[middle]) < row) {
      at = middle + 1;
    } else {
      above = middle;
    }
  }
  return at;
}

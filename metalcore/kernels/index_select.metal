// The gradient of y[o, i, k] = x[o, index[i], k] where inner is large: dx[o, r, k] = sum of g[o, i, k] over the places
// of r. gather.metal picks, and scatter_add.metal sums where inner is 1.
#include "index.h"

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

// out[b] = sum, mean or maximum over the indices i of bag b of weight[index[i]] (times sample_weight[i] in a sum).
// dweight[r] = sum over the places i of r, in the order of the input, of g[bag of i] (scaled): places come sorted by
// index, so that each row is one walk and the order of its sum is fixed.
#include "exact_sum.h"
#include "index.h"
#include "wide.h"

constant bool has_sample_weight [[function_constant(0)]];

constant long AHEAD = 16;
constant uint IS_MEAN = 1;
constant uint IS_MAX = 2;
constant uint HAS_OFFSETS = 4;
constant uint BY_FREQUENCY = 8;  // the gradient of a row is divided by the number of its places

// Asks for 64 elements that will be read soon. A GPU has other threads to run while it waits.
template <typename T>
inline void ask_for(device const T* from) {
#ifdef METALCORE_ENGINE
  for (uint line = 0; line < sizeof(T); line++) {
    __builtin_prefetch((device const char*)from + 64 * line);
  }
#endif
}

// Bags by offsets: clamped, so that a wrong offset reaches no memory outside.
template <typename O>
inline long2 bag_range(device const O* offsets, ulong bag, long ends, long count, long width, uint flags) {
  if (!(flags & HAS_OFFSETS)) {
    return long2(bag * width, (bag + 1) * width);
  }
  const long begin = clamp(long(offsets[bag]), 0l, count);
  const long end = long(bag) + 1 < ends ? clamp(long(offsets[bag + 1]), 0l, count) : count;
  return long2(begin, max(begin, end));
}

// One threadgroup, after the forward kernel: which index is wrong, where a bag says that one is? Are the offsets right?
// errors: {1, place, value} for the index, then for the offsets (place -1 - bag).
template <typename I, typename O>
[[kernel]] void embedding_bag_check(
    device const I* index [[buffer(0)]],
    device const O* offsets [[buffer(1)]],
    device const float* sizes [[buffer(2)]],
    device long* errors [[buffer(3)]],
    constant long& count [[buffer(4)]],
    constant long& rows [[buffer(5)]],
    constant long& ends [[buffer(6)]],
    constant long& bags [[buffer(7)]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup uint partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  float least = 0.0f;
  for (uint i = lid; i < uint(bags); i += group_size) {
    least = min(least, sizes[i]);
  }
  uint first = uint(count);
  if (group_least(least < 0.0f ? 0 : 1, partial, at) == 0) {
    first = group_least(first_outside(index, lid, uint(count), group_size, rows), partial, at);
  }
  uint fall = uint(ends);
  for (uint i = lid; i + 1 < uint(ends); i += group_size) {
    fall = long(offsets[i]) <= long(offsets[i + 1]) ? fall : min(fall, i + 1);
  }
  if (ends > 0) {
    fall = long(offsets[ends - 1]) > count ? min(fall, uint(ends) - 1) : fall;
    fall = long(offsets[0]) != 0 ? 0 : fall;
  }
  fall = group_least(fall, partial, at);
  if (lid == 0) {
    report_index(errors, index, first, count);
    report_index(errors + 3, offsets, fall, ends);
    errors[4] = -1 - errors[4];
  }
}

// One threadgroup takes `each` bags. chosen: the place that the maximum came from, or -1; sizes: how many rows a bag
// has, below 0 where one of its indices is wrong.
template <typename T, typename I, typename O, uint V>
[[kernel]] void embedding_bag_forward(
    device const I* index [[buffer(0)]],
    device const T* weight [[buffer(1)]],
    device const O* offsets [[buffer(2)]],
    device const T* sample_weight [[buffer(3)]],
    device T* out [[buffer(4)]],
    device int* chosen [[buffer(5)]],
    device float* sizes [[buffer(6)]],
    constant long& count [[buffer(7)]],
    constant long& rows [[buffer(8)]],
    constant long& dim [[buffer(9)]],
    constant long& ends [[buffer(10)]],
    constant long& width [[buffer(11)]],
    constant long& padding [[buffer(12)]],
    constant long& options [[buffer(13)]],
    constant long& bags [[buffer(14)]],
    constant long& each [[buffer(15)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  using F = wide<float, V>;
  using N = wide<int, V>;
  const uint flags = uint(options);
  const uint steps = uint(dim) / V;
  const ulong last = min((block + 1) * each, bags);
  for (ulong bag = block * each; bag < last; bag++) {
    const long2 range = bag_range(offsets, bag, ends, count, width, flags);
    long size = range.y - range.x;
    for (long i = range.x; padding >= 0 && i < range.y; i++) {
      size -= long(index[i]) == padding;
    }
    bool is_wrong = false;
    if (flags & IS_MAX || steps < 2 * group_size) {  // else the sum below tells
      for (long i = range.x; i < range.y; i++) {
        const long row = long(index[i]);
        is_wrong = is_wrong || row < 0 || row >= rows;
      }
    }
    device T* to = out + bag * dim;
    if (flags & IS_MAX) {
      for (uint d = lid; d < steps; d += group_size) {
        F top = F(-INFINITY);
        N place = N(-1);
        for (long i = range.x; i < range.y; i++) {
          const long row = long(index[i]);
          if (ulong(row) < ulong(rows) && row != padding) {
            const F v = load<V>(weight + row * dim, d);
            const auto is_more = v > top || place < 0;
            top = select(top, v, is_more);
            place = select(place, N(int(i)), is_more);
          }
        }
        store<V>(to, d, size > 0 ? top : F(0.0f));
        ((device N*)(chosen + bag * dim))[d] = place;
      }
      if (lid == 0) {
        sizes[bag] = is_wrong ? -float(size) : float(size);
      }
      continue;
    }
    const float divisor = flags & IS_MEAN ? float(max(size, 1l)) : 1.0f;
    uint d = lid;
    for (uint part = 0; part + 2 * group_size <= steps; part += 2 * group_size) {  // two parts of a row at once
      F left = F(0.0f);
      F right = F(0.0f);
      for (long i = range.x; i < range.y; i++) {
        const long row = long(index[i]);
        ask_for(weight + long(index[min(i + AHEAD, count - 1)]) * dim + part * V);
        if (ulong(row) < ulong(rows) && row != padding) {
          device const T* from = weight + row * dim;
          const F s = F(has_sample_weight ? float(sample_weight[i]) : 1.0f);
          left = fma(load<V>(from, d), s, left);
          right = fma(load<V>(from, d + group_size), s, right);
        } else {
          is_wrong = is_wrong || row != padding;
        }
      }
      store<V>(to, d, left / divisor);
      store<V>(to, d + group_size, right / divisor);
      d += 2 * group_size;
    }
    for (; d < steps; d += group_size) {
      F sum = F(0.0f);
      for (long i = range.x; i < range.y; i++) {
        const long row = long(index[i]);
        if (ulong(row) < ulong(rows) && row != padding) {
          const F s = F(has_sample_weight ? float(sample_weight[i]) : 1.0f);
          sum = fma(load<V>(weight + row * dim, d), s, sum);
        }
      }
      store<V>(to, d, sum / divisor);
    }
    if (lid == 0) {
      sizes[bag] = is_wrong ? -float(size) : float(size);
    }
  }
}

// The bag of each place, for bags of different sizes. One threadgroup a bag.
template <typename O>
[[kernel]] void embedding_bag_owner(
    device const O* offsets [[buffer(0)]],
    device int* owner [[buffer(1)]],
    constant long& ends [[buffer(2)]],
    constant long& count [[buffer(3)]],
    uint bag [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  const long2 range = bag_range(offsets, bag, ends, count, 0, HAS_OFFSETS);
  for (ulong i = range.x + lid; i < ulong(range.y); i += group_size) {
    owner[i] = int(bag);
  }
}

// One threadgroup takes `each` rows of the table: finds their first place among the sorted ones, then walks on.
template <typename T, typename I, uint V>
[[kernel]] void embedding_bag_backward(
    device const T* g [[buffer(0)]],
    device const I* sorted [[buffer(1)]],
    device const long* order [[buffer(2)]],
    device const int* owner [[buffer(3)]],
    device const T* sample_weight [[buffer(4)]],
    device const int* chosen [[buffer(5)]],
    device const float* sizes [[buffer(6)]],
    device T* dweight [[buffer(7)]],
    constant long& count [[buffer(8)]],
    constant long& rows [[buffer(9)]],
    constant long& dim [[buffer(10)]],
    constant long& width [[buffer(11)]],
    constant long& padding [[buffer(12)]],
    constant long& each [[buffer(13)]],
    constant long& options [[buffer(14)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  using F = wide<float, V>;
  using N = wide<int, V>;
  const uint flags = uint(options);
  const uint steps = uint(dim) / V;
  const long first = block * each;
  const long last = min(first + each, rows);
  long at = first_not_below(sorted, count, first);
  for (long row = first; row < last; row++) {
    long end = at;
    while (end < count && long(sorted[end]) == row) {
      end++;
    }
    const float divisor = flags & BY_FREQUENCY ? float(max(end - at, 1l)) : 1.0f;
    if (row == padding) {
      at = end;
    }
    if (at == end) {
      for (uint d = lid; d < uint(dim); d += group_size) {
        dweight[row * dim + d] = T(0.0f);
      }
      continue;
    }
    for (uint d = lid; d < steps; d += group_size) {
      F sum = F(0.0f);
      for (long p = at; p < end; p++) {
        const long place = order[p];
        const long bag = flags & HAS_OFFSETS ? long(owner[place]) : place / width;
        F v = load<V>(g + bag * dim, d);
        if (flags & IS_MEAN) {
          v /= abs(sizes[bag]);
        }
        if (has_sample_weight) {
          v *= float(sample_weight[place]);
        }
        if (flags & IS_MAX) {
          v = select(F(0.0f), v, ((device const N*)(chosen + bag * dim))[d] == N(int(place)));
        }
        sum += v;
      }
      store<V>(dweight + row * dim, d, sum / divisor);
    }
    at = end;
  }
}

// d sample_weight[i] = g[bag of i] . weight[index[i]], with the rounding errors of products and sums added at the end,
// since one number is left of a whole row. One threadgroup a bag.
template <typename T, typename I, typename O>
[[kernel]] void embedding_bag_sample_weight(
    device const T* g [[buffer(0)]],
    device const I* index [[buffer(1)]],
    device const T* weight [[buffer(2)]],
    device const O* offsets [[buffer(3)]],
    device T* dsample_weight [[buffer(4)]],
    constant long& count [[buffer(5)]],
    constant long& rows [[buffer(6)]],
    constant long& dim [[buffer(7)]],
    constant long& ends [[buffer(8)]],
    constant long& width [[buffer(9)]],
    constant long& padding [[buffer(10)]],
    constant long& options [[buffer(11)]],
    uint bag [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float values[32];
  threadgroup float rests[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const long2 range = bag_range(offsets, bag, ends, count, width, uint(options));
  g += bag * dim;
  for (long i = range.x; i < range.y; i++) {
    const long row = long(index[i]);
    const bool counts = row >= 0 && row < rows && row != padding;
    ExactSum sum = {0.0f, 0.0f};
    if (counts) {
      for (uint d = lid; d < uint(dim); d += group_size) {
        const float a = float(g[d]);
        const float b = float(weight[row * dim + d]);
        const float product = a * b;
        sum = added(sum, product);
        sum.error += fma(a, b, -product);
      }
    }
    const float dot = group_added(sum, values, rests, at);
    if (lid == 0) {
      dsample_weight[i] = T(dot);
    }
  }
}

// What stands between the products where a singular value decomposition solves something: ops/linalg/least_squares.py.
// A singular value counts as zero where it is not above max(atol, rtol * the largest).
#include <metal_stdlib>
using namespace metal;

inline float svd_cut(float largest, float atol, float rtol) { return max(atol, rtol * largest); }

// Row i of `a`, of `size` rows a matrix, over value i; zero where the value counts as zero.
template <typename T>
[[kernel]] void svd_inverted(
    device const T* a [[buffer(0)]],
    device const T* values [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant long& count [[buffer(3)]],
    constant long& size [[buffer(4)]],
    constant long& columns [[buffer(5)]],
    constant float& atol [[buffer(6)]],
    constant float& rtol [[buffer(7)]],
    uint id [[thread_position_in_grid]]) {
  if (id >= count) {
    return;
  }
  const uint row = id / uint(columns), first = row - row % uint(size);
  const float value = values[row];
  out[id] = value > svd_cut(values[first], atol, rtol) ? a[id] / value : 0.0f;
}

// How many values do not count as zero. A thread a matrix.
template <typename T>
[[kernel]] void svd_rank(
    device const T* values [[buffer(0)]],
    device long* ranks [[buffer(1)]],
    constant long& count [[buffer(2)]],
    constant long& size [[buffer(3)]],
    constant float& atol [[buffer(4)]],
    constant float& rtol [[buffer(5)]],
    uint id [[thread_position_in_grid]]) {
  if (id >= count) {
    return;
  }
  device const T* own = values + long(id) * size;
  long rank = 0;
  for (uint i = 0; i < uint(size); i++) {
    rank += own[i] > svd_cut(own[0], atol, rtol) ? 1 : 0;
  }
  ranks[id] = rank;
}

// Sums of squares of the columns of a - b. A thread a column.
template <typename T>
[[kernel]] void svd_residual(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant long& count [[buffer(3)]],
    constant long& rows [[buffer(4)]],
    constant long& columns [[buffer(5)]],
    uint id [[thread_position_in_grid]]) {
  if (id >= count) {
    return;
  }
  const long begin = long(id / uint(columns)) * rows * columns + id % uint(columns);
  float sum = 0;
  for (uint i = 0; i < uint(rows); i++) {
    const float value = a[begin + i * columns] - b[begin + i * columns];
    sum += value * value;
  }
  out[id] = sum;
}

// a - b.
template <typename T>
[[kernel]] void svd_difference(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant long& count [[buffer(3)]],
    uint id [[thread_position_in_grid]]) {
  if (id < count) {
    out[id] = a[id] - b[id];
  }
}

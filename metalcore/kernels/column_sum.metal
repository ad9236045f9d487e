// out[j] = sum over rows i of shares[i, j]: the second half of a gradient that is summed over rows.
// Always in the same order, so that a gradient is the same in every run.
#include "exact_sum.h"

// Shares may cancel each other.
inline float summed(device const float* shares, long rows, long width, uint column) {
  ExactSum sum = {0.0f, 0.0f};
  for (long row = 0; row < rows; row++) {
    sum = added(sum, shares[row * width + column]);
  }
  return rounded(sum);
}

template <typename T>
[[kernel]] void column_sum(
    device const float* shares [[buffer(0)]],
    device T* out [[buffer(1)]],
    constant long& rows [[buffer(2)]],
    constant long& width [[buffer(3)]],
    uint column [[thread_position_in_grid]]) {
  if (column < width) {
    out[column] = T(summed(shares, rows, width, column));
  }
}

// Of two arrays of shares in one launch: those of a weight and a bias.
template <typename T>
[[kernel]] void column_sum_pair(
    device const float* first_shares [[buffer(0)]],
    device const float* second_shares [[buffer(1)]],
    device T* first [[buffer(2)]],
    device T* second [[buffer(3)]],
    constant long& rows [[buffer(4)]],
    constant long& width [[buffer(5)]],
    uint column [[thread_position_in_grid]]) {
  if (column < width) {
    first[column] = T(summed(first_shares, rows, width, column));
    second[column] = T(summed(second_shares, rows, width, column));
  }
}

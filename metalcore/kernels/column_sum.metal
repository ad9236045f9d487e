// out[j] = sum over rows i of shares[i, j]: the second half of a gradient that is summed over rows.
// Always in the same order, so that a gradient is the same in every run.
#include <metal_stdlib>
using namespace metal;

template <typename T>
[[kernel]] void column_sum(
    device const float* shares [[buffer(0)]],
    device T* out [[buffer(1)]],
    constant long& rows [[buffer(2)]],
    constant long& width [[buffer(3)]],
    uint column [[thread_position_in_grid]]) {
  if (column >= width) {
    return;
  }
  // What each addition is rounded by is kept (two-sum), for shares that cancel each other.
  float sum = 0.0f;
  float rest = 0.0f;
  for (long row = 0; row < rows; row++) {
    const float share = shares[row * width + column];
    const float next = sum + share;
    const float added = next - sum;
    rest += (sum - (next - added)) + (share - added);
    sum = next;
  }
  out[column] = T(rest == rest ? sum + rest : sum);  // an infinite sum leaves no rest
}

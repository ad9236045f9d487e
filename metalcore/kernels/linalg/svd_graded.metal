// Whether rows or columns of a matrix differ much in size. Then the small singular values of a matrix that is otherwise
// well-conditioned have digits which a bidiagonal matrix loses, and Jacobi's rotations do not.
#include "group.h"

constant constexpr float MOST_SPREAD = 64;  // of the largest elements of rows, and of columns; zeros do not count

// One threadgroup a matrix.
template <typename T>
[[kernel]] void svd_graded(
    device const T* a [[buffer(0)]],
    device int* graded [[buffer(1)]],
    constant long& row_count [[buffer(2)]],
    constant long& column_count [[buffer(3)]],
    uint matrix [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const Lane at = {lane, simdgroup, simdgroups};
  const uint rows = row_count, columns = column_count;
  a += long(matrix) * rows * columns;
  float most = 0, least = INFINITY;
  for (uint i = simdgroup; i < rows; i += simdgroups) {
    device const T* row = a + long(i) * columns;
    float largest = 0;
    for (uint j = lane; j < columns; j += 32) {
      largest = max(largest, abs(row[j]));
    }
    largest = simd_max(largest);
    most = max(most, largest);
    least = largest > 0 ? min(least, largest) : least;
  }
  for (uint j = lid; j < columns; j += threads) {
    float largest = 0;
    for (uint i = 0; i < rows; i++) {
      largest = max(largest, abs(a[long(i) * columns + j]));
    }
    least = largest > 0 ? min(least, largest) : least;
  }
  most = group_max(most, partial, at);
  least = -group_max(-least, partial, at);
  if (lid == 0) {
    graded[matrix] = most > MOST_SPREAD * least;
  }
}

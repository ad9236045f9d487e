// A = L L^T of a symmetric positive definite matrix. Only one triangle of A is read: the lower one, or the upper one
// where is_upper, and then the result is U = L^T. info is the order of the first leading minor that is not positive
// definite, or 0.
#include "linalg/lanes.h"

constant bool is_upper [[function_constant(0)]];

// One thread a matrix of n <= N.
template <typename T, uint N>
[[kernel]] void cholesky_lanes(
    device const T* a [[buffer(0)]],
    device T* factor [[buffer(1)]],
    device int* info [[buffer(2)]],
    constant long& count [[buffer(3)]],
    constant long& size [[buffer(4)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;  // columns of a power of two would share few lines of the cache
  threadgroup float tile[LANE_TILE];
  float l[N * PITCH];
  const uint n = size;
  const long first = long(group) * LANES;
  load_lanes(a, l, tile, n, n, PITCH, first, count, lane);
  if (is_upper) {
    for (uint i = 0; i < n; i++) {
      for (uint j = 0; j < i; j++) {
        l[i * PITCH + j] = l[j * PITCH + i];
      }
    }
  }
  int failed = 0;
  for (uint j = 0; j < n; j++) {
    float pivot = l[j * PITCH + j];
    for (uint k = 0; k < j; k++) {
      pivot -= l[j * PITCH + k] * l[j * PITCH + k];
    }
    failed = failed == 0 && !(pivot > 0) ? int(j) + 1 : failed;
    const float root = sqrt(pivot), inverse = 1 / root;
    l[j * PITCH + j] = root;
    for (uint i = j + 1; i < n; i++) {
      float sum = l[i * PITCH + j];
      for (uint k = 0; k < j; k++) {
        sum -= l[i * PITCH + k] * l[j * PITCH + k];
      }
      l[i * PITCH + j] = sum * inverse;
    }
  }
  for (uint i = 0; i < n; i++) {
    for (uint j = i + 1; j < n; j++) {
      l[i * PITCH + j] = is_upper ? l[j * PITCH + i] : 0.0f;
    }
  }
  if (is_upper) {
    for (uint i = 0; i < n; i++) {
      for (uint j = 0; j < i; j++) {
        l[i * PITCH + j] = 0;
      }
    }
  }
  store_lanes(l, factor, tile, n, n, PITCH, first, count, lane);
  if (first + lane < count) {
    info[first + lane] = failed;
  }
}

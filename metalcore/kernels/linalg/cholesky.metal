// A = L L^T of a symmetric positive definite matrix. Only one triangle of A is read: the lower one, or the upper one
// where is_upper, and then the result is U = L^T. info is the order of the first leading minor that is not positive
// definite, or 0.
#include "linalg/lanes.h"

constant bool is_upper [[function_constant(0)]];
constant bool is_first [[function_constant(1)]];  // no block was factorised before this one
constant bool copies [[function_constant(2)]];    // factor is a new matrix: what lies outside the block is copied from a

constant constexpr uint BLOCK = 64;  // most rows of the block that one simdgroup factorises
constant constexpr uint BLOCK_PITCH = BLOCK;

// Whether this pivot is the first one that is no positive number. Without a branch, for which lanes would part.
inline bool is_first_bad(int failed, float pivot) {
  return (failed == 0) & !((pivot > 0) & (pivot <= numeric_limits<float>::max()));
}

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
    failed = select(failed, int(j) + 1, is_first_bad(failed, pivot));
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

// A column of rows j and `next` of U: what the rows above leave of it.
inline float2 eliminate(threadgroup const float* u, uint j, uint next, uint column) {
  float s0 = u[j * BLOCK_PITCH + column], s1 = u[next * BLOCK_PITCH + column];
  for (uint k = 0; k < j; k++) {
    const float value = u[k * BLOCK_PITCH + column];
    s0 = fma(-u[k * BLOCK_PITCH + j], value, s0);
    s1 = fma(-u[k * BLOCK_PITCH + next], value, s1);
  }
  return float2(s0, s1);
}

// One simdgroup a block of n <= BLOCK rows on the diagonal, from row and column `start` on, of a matrix of `order`
// rows; what stands right of the block gets 0. The block is worked on as U in threadgroup memory, where lanes run along
// its rows, two rows at a time.
template <typename T>
[[kernel]] void cholesky_block(
    device const T* a [[buffer(0)]],
    device T* factor [[buffer(1)]],
    device const int* before [[buffer(2)]],
    device int* info [[buffer(3)]],
    constant long& size [[buffer(4)]],
    constant long& start [[buffer(5)]],
    constant long& order [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float u[BLOCK * BLOCK_PITCH];
  const uint n = size;
  const long corner = group * order * order + start * order + start;
  if (copies) {
    const long whole = group * order * order;
    for (uint i = 0; i < order; i++) {
      const bool is_beside = i >= start && i < start + n;
      for (uint j = lane; j < (is_beside ? start : order); j += LANES) {
        factor[whole + i * order + j] = a[whole + i * order + j];
      }
    }
  }
  a += corner;
  factor += corner;
  const uint padded = (n + LANES - 1) / LANES * LANES;  // whole simdgroups: the rest is 0
  for (uint i = 0; i < padded; i++) {
    for (uint begin = 0; begin < padded; begin += LANES) {
      const uint j = begin + lane;
      u[is_upper ? i * BLOCK_PITCH + j : j * BLOCK_PITCH + i] = i < n && j < n ? float(a[i * order + j]) : 0.0f;
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  uint failed = 0;
  for (uint j = 0; j < n; j += 2) {
    const bool is_pair = j + 1 < n;
    const uint q = is_pair ? j + 1 : j, begin = j / LANES * LANES;
    threadgroup float* row = u + j * BLOCK_PITCH;
    threadgroup float* row_q = u + q * BLOCK_PITCH;
    float2 sums = eliminate(u, j, q, begin + lane);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    row[begin + lane] = sums.x;
    if (is_pair) {
      row_q[begin + lane] = sums.y;
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    const float pivot = row[j];
    const float root = sqrt(pivot), inverse = 1 / root, between = row[q] * inverse;
    const float pivot_q = fma(-between, between, row_q[q]);
    const float root_q = sqrt(pivot_q), inverse_q = 1 / root_q;
    failed = select(failed, j + 1, is_first_bad(failed, pivot));
    failed = select(failed, j + 2, is_pair && is_first_bad(failed, pivot_q));
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint part = begin; part < n; part += LANES) {
      const uint c = part + lane;
      if (part > begin) {
        sums = eliminate(u, j, q, c);
      }
      const float value = sums.x * inverse, value_q = fma(-between, value, sums.y) * inverse_q;
      row[c] = c == j ? root : value;
      if (is_pair) {
        row_q[c] = c == q ? root_q : value_q;
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  const uint right = order - start;
  for (uint i = 0; i < n; i++) {
    for (uint j = lane; j < right; j += LANES) {
      factor[i * order + j] = T(0);
    }
    for (uint begin = is_upper ? i / LANES * LANES : 0; begin < (is_upper ? n : i + 1); begin += LANES) {
      const uint j = begin + lane;
      if (j < n && (is_upper ? j >= i : j <= i)) {
        factor[i * order + j] = T(u[is_upper ? i * BLOCK_PITCH + j : j * BLOCK_PITCH + i]);
      }
    }
  }
  if (lane == 0) {
    const int earlier = is_first ? 0 : before[group];
    info[group] = earlier != 0 || failed == 0 ? earlier : int(failed) + int(start);
  }
}

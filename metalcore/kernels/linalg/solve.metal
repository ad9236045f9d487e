// Systems with a square matrix, by L U with partial pivoting. info is the number of the first column whose pivot is 0,
// or 0; the solution has no meaning then.
#include "linalg/lu.h"
#include "linalg/lu_group.h"

constant bool is_transposed [[function_constant(0)]];  // of A^T X = B
constant bool is_inverse [[function_constant(1)]];     // B is the identity

// One thread a system of n <= N unknowns and at most N right-hand sides, which are eliminated along with the matrix.
template <typename T, uint N>
[[kernel]] void solve_lanes(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device T* x [[buffer(2)]],
    device int* info [[buffer(3)]],
    constant long& count [[buffer(4)]],
    constant long& size [[buffer(5)]],
    constant long& side_count [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = 2 * N + 1;
  threadgroup float tile[LANE_TILE];
  float work[N * PITCH];
  float exchanged[N];
  const uint n = size, sides = side_count;
  const long first = long(group) * LANES;
  thread float* right = work + n;
  load_lanes(a, work, tile, n, n, PITCH, first, count, lane);
  if (is_transposed) {
    for (uint i = 0; i < n; i++) {
      for (uint j = 0; j < i; j++) {
        const float below = work[i * PITCH + j];
        work[i * PITCH + j] = work[j * PITCH + i];
        work[j * PITCH + i] = below;
      }
    }
  }
  if (is_inverse) {
    for (uint i = 0; i < n; i++) {
      for (uint j = 0; j < n; j++) {
        right[i * PITCH + j] = i == j ? 1.0f : 0.0f;
      }
    }
  } else {
    load_lanes(b, right, tile, n, sides, PITCH, first, count, lane);
  }
  const int failed = eliminate_lanes<N, PITCH, false>(work, exchanged, n, n + sides, n, true);
  for (uint step = 0; step < n; step++) {
    const uint i = n - 1 - step;
    const float pivot = work[i * PITCH + i];
    for (uint j = 0; j < sides; j++) {
      float sum = right[i * PITCH + j];
      for (uint k = i + 1; k < n; k++) {
        sum = fma(-work[i * PITCH + k], right[k * PITCH + j], sum);
      }
      right[i * PITCH + j] = sum / pivot;
    }
  }
  store_lanes(right, x, tile, n, sides, PITCH, first, count, lane);
  if (first + lane < count) {
    info[first + lane] = failed;
  }
}

// A triangular system with 32 right-hand sides, in place: blocks of 32 rows are solved and taken from the others.
template <typename T, bool UPPER, bool UNIT, bool TRANSPOSED>
inline void solve_triangle(device T* column, device const T* a, uint n, threadgroup float* tile, Place at) {
  for (uint done = 0; done < n; done += BLOCK) {
    const uint begin = UPPER ? (n - 1 - done) / BLOCK * BLOCK : done;
    const uint end = min(begin + BLOCK, n);
    if (at.simdgroup == 0) {
      solve_block<T, UPPER, UNIT, TRANSPOSED>(column, BLOCK, a, n, begin, end - begin, begin, tile, true, at.lane);
    }
    share();
    subtract_product<T, TRANSPOSED>(column, BLOCK, a, n, UPPER ? 0 : end, UPPER ? begin : n, begin, end - begin, tile,
                                    true, at);
    share();
  }
}

// X of A X = B from the factors of A, or of the one A that all B share; a threadgroup has 32 right-hand sides. They are
// worked on row after row, filled up with zeros: whole rows of 32 are faster than parts, and stand together.
template <typename T>
[[kernel]] void solve_factored(
    device const T* factors [[buffer(0)]],
    device const int* pivots [[buffer(1)]],
    device const T* b [[buffer(2)]],
    device T* x [[buffer(3)]],
    device T* work [[buffer(4)]],
    constant long& size [[buffer(5)]],
    constant long& sides [[buffer(6)]],
    constant long& is_shared [[buffer(7)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint2 groups [[threadgroups_per_grid]],
    uint thread_index [[thread_index_in_threadgroup]],
    uint2 group_size [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
  const uint threads = group_size.x;
  threadgroup float tile[BLOCK * BLOCK];
  const Place at = {thread_index, threads, lane, simdgroup, simdgroups};
  const uint n = size, side = group.x * BLOCK + lane;
  const bool is_inside = side < uint(sides);
  const long matrix = is_shared ? 0 : group.y;
  device const T* lu = factors + matrix * size * size;
  device const int* exchanged = pivots + matrix * size;
  device T* column = work + (group.y * long(groups.x) + group.x) * size * BLOCK + lane;
  for (uint i = simdgroup; i < n; i += simdgroups) {
    T value = is_inverse ? T(i == side) : T(0);
    if (!is_inverse && is_inside) {
      value = b[(group.y * size + i) * sides + side];
    }
    column[i * BLOCK] = value;
  }
  share();
  if (is_transposed) {
    solve_triangle<T, false, false, true>(column, lu, n, tile, at);
    solve_triangle<T, true, true, true>(column, lu, n, tile, at);
  }
  if (simdgroup == 0) {
    exchange_rows(column, BLOCK, exchanged, 0, n, n, is_transposed, true);
  }
  share();
  if (!is_transposed) {
    solve_triangle<T, false, true, false>(column, lu, n, tile, at);
    solve_triangle<T, true, false, false>(column, lu, n, tile, at);
  }
  for (uint i = simdgroup; i < n; i += simdgroups) {
    if (is_inside) {
      x[(group.y * size + i) * sides + side] = column[i * BLOCK];
    }
  }
}

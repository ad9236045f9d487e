// What is made of L and U in one matrix: the three factors, the determinant, and the steps of their gradients.
#include "linalg/lu.h"
#include "linalg/lu_group.h"

constant bool is_logarithm [[function_constant(0)]];
constant bool is_wide [[function_constant(1)]];
constant bool is_tall [[function_constant(2)]];
constant bool has_permutation [[function_constant(3)]];
constant bool has_factor [[function_constant(4)]];
constant bool is_forward [[function_constant(5)]];

// The row of L U that row i of A has become. Pivots come from the user too: none beyond the matrix is followed.
inline uint row_after(device const int* pivots, uint steps, uint rows, uint i) {
  for (uint k = 0; k < steps; k++) {
    const uint other = min(uint(pivots[k]) - 1, rows - 1);
    i = i == k ? other : i == other ? k : i;
  }
  return i;
}

// A = P L U: the rows [32 group.x, ...) of each.
template <typename T>
[[kernel]] void lu_unpack(
    device const T* factors [[buffer(0)]],
    device const int* pivots [[buffer(1)]],
    device T* p [[buffer(2)]],
    device T* l [[buffer(3)]],
    device T* u [[buffer(4)]],
    constant long& row_count [[buffer(5)]],
    constant long& column_count [[buffer(6)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup uint after[BLOCK];
  const uint rows = row_count, columns = column_count, steps = min(rows, columns);
  const uint begin = group.x * BLOCK, end = min(begin + BLOCK, rows);
  const long matrix = group.y;
  if (has_permutation) {
    after[lane] = row_after(pivots + matrix * steps, steps, rows, begin + lane);
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (uint i = begin; i < end; i++) {
    if (has_permutation) {
      const uint one = after[i - begin];
      for (uint j = lane; j < rows; j += LANES) {
        p[(matrix * rows + i) * rows + j] = j == one ? 1 : 0;
      }
    }
    for (uint j = lane; j < steps; j += LANES) {
      const T x = factors[(matrix * rows + i) * columns + j];
      l[(matrix * rows + i) * steps + j] = j < i ? x : T(j == i);
    }
    if (i < steps) {
      for (uint j = lane; j < columns; j += LANES) {
        const T x = factors[(matrix * rows + i) * columns + j];
        u[(matrix * steps + i) * columns + j] = j < i ? T(0) : x;
      }
    }
  }
}

// The same for a matrix a thread, from A itself: P, L and U of at most N rows and columns.
template <typename T, uint N>
[[kernel]] void lu_parts_lanes(
    device const T* a [[buffer(0)]],
    device T* p [[buffer(1)]],
    device T* l [[buffer(2)]],
    device T* u [[buffer(3)]],
    device int* pivots [[buffer(4)]],
    constant long& count [[buffer(5)]],
    constant long& row_count [[buffer(6)]],
    constant long& column_count [[buffer(7)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;
  threadgroup float tile[LANE_TILE];
  float work[N * PITCH], part[N * PITCH];
  float exchanged[N];
  const uint rows = row_count, columns = column_count, steps = min(rows, columns);
  const long first = long(group) * LANES;
  load_lanes(a, work, tile, rows, columns, PITCH, first, count, lane);
  eliminate_lanes<N, PITCH, true>(work, exchanged, rows, columns, steps, has_permutation);
  for (uint i = 0; i < rows; i++) {
    for (uint j = 0; j < steps; j++) {
      const float x = work[i * PITCH + j];
      part[i * PITCH + j] = j < i ? x : j == i ? 1.0f : 0.0f;
    }
  }
  store_lanes(part, l, tile, rows, steps, PITCH, first, count, lane);
  for (uint i = 0; i < steps; i++) {
    for (uint j = 0; j < i; j++) {
      work[i * PITCH + j] = 0;
    }
  }
  store_lanes(work, u, tile, steps, columns, PITCH, first, count, lane);
  if (has_permutation) {
    for (uint i = 0; i < rows; i++) {
      float after = i;
      for (uint k = 0; k < steps; k++) {
        const float other = exchanged[k];
        after = after == float(k) ? other : after == other ? float(k) : after;
      }
      for (uint j = 0; j < rows; j++) {
        part[i * PITCH + j] = after == float(j) ? 1.0f : 0.0f;
      }
    }
    store_lanes(part, p, tile, rows, rows, PITCH, first, count, lane);
  }
  for (uint k = 0; k < steps; k++) {
    exchanged[k] += 1;
  }
  store_lanes(exchanged, pivots, tile, 1, steps, N, first, count, lane);
}

// A product of many numbers, which may be far above or below 1 on the way.
struct Product {
  float mantissa = 1;
  int exponent = 0;

  void times(float x) {
    int part, rest;
    const float y = frexp(x, part);
    mantissa = frexp(mantissa * y, rest);
    exponent += part + rest;
  }
};

// The determinant from the diagonal of L U and from the number of exchanges; or its sign, and the logarithm of its size.
template <typename T>
[[kernel]] void lu_determinant(
    device const T* factors [[buffer(0)]],
    device const int* pivots [[buffer(1)]],
    device T* determinants [[buffer(2)]],
    device T* logarithms [[buffer(3)]],
    constant long& size [[buffer(4)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint n = size;
  const long matrix = group;
  Product product;
  float logarithm = 0;
  for (uint k = lane; k < n; k += LANES) {
    const float x = factors[matrix * size * size + k * (size + 1)];
    const float y = is_logarithm ? (x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f) : x;
    product.times(pivots[matrix * size + k] == int(k) + 1 ? y : -y);
    logarithm += is_logarithm ? precise::log(abs(x)) : 0.0f;
  }
  const float whole = ldexp(simd_product(product.mantissa), simd_sum(product.exponent));
  logarithm = simd_sum(logarithm);
  if (lane == 0) {
    determinants[matrix] = whole;
    if (is_logarithm) {
      logarithms[matrix] = logarithm;
    }
  }
}

// The same for a matrix a thread, of n <= N.
template <typename T, uint N>
[[kernel]] void determinant_lanes(
    device const T* a [[buffer(0)]],
    device T* determinants [[buffer(1)]],
    device T* logarithms [[buffer(2)]],
    constant long& count [[buffer(3)]],
    constant long& size [[buffer(4)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;
  threadgroup float tile[LANE_TILE];
  float work[N * PITCH];
  float exchanged[N];
  const uint n = size;
  const long first = long(group) * LANES;
  load_lanes(a, work, tile, n, n, PITCH, first, count, lane);
  eliminate_lanes<N, PITCH, false>(work, exchanged, n, n, n, true);
  Product product;
  float logarithm = 0;
  for (uint k = 0; k < n; k++) {
    const float x = work[k * (PITCH + 1)];
    const float y = is_logarithm ? (x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f) : x;
    product.times(exchanged[k] == float(k) ? y : -y);
    logarithm += is_logarithm ? precise::log(abs(x)) : 0.0f;
  }
  if (first + lane < count) {
    determinants[first + lane] = ldexp(product.mantissa, product.exponent);
    if (is_logarithm) {
      logarithms[first + lane] = logarithm;
    }
  }
}

// Each matrix times a number: scales[m], or scales[m] * factors[m]. A number 0 gives 0, also where the matrix, as the
// inverse of a singular one, is not finite.
template <typename T>
[[kernel]] void scale_matrices(
    device const T* x [[buffer(0)]],
    device const T* scales [[buffer(1)]],
    device const T* factors [[buffer(2)]],
    device T* y [[buffer(3)]],
    constant long& size [[buffer(4)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]]) {
  const long begin = group * size;
  const float scale = has_factor ? scales[group] * factors[group] : scales[group];
  for (uint i = lane; i < uint(size); i += threads) {
    y[begin + i] = scale == 0 ? 0.0f : scale * x[begin + i];
  }
}

// Below the diagonal `lower`, else `upper`; `other` is taken from the one where is_wide, from the other where is_tall.
template <typename T>
[[kernel]] void join_triangles(
    device const T* lower [[buffer(0)]],
    device const T* upper [[buffer(1)]],
    device const T* other [[buffer(2)]],
    device T* joined [[buffer(3)]],
    constant long& size [[buffer(4)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_threadgroup]],
    uint2 group_size [[threads_per_threadgroup]]) {
  const uint threads = group_size.x;
  const uint n = size, i = group.x;
  const long row = (group.y * size + i) * size;
  for (uint j = lane; j < n; j += threads) {
    const float below = lower[row + j], above = upper[row + j];
    const float taken = is_wide || is_tall ? other[row + j] : T(0);
    joined[row + j] = j < i ? (is_wide ? below - taken : below) : (is_tall ? above - taken : above);
  }
}

// P times a matrix, or P^T times it where is_forward. Where is_wide or is_tall, `square` is the part with as many rows as
// columns, and `rest` what stands beside or below.
template <typename T>
[[kernel]] void permute_rows(
    device const T* square [[buffer(0)]],
    device const T* rest [[buffer(1)]],
    device const int* pivots [[buffer(2)]],
    device T* out [[buffer(3)]],
    constant long& row_count [[buffer(4)]],
    constant long& column_count [[buffer(5)]],
    constant long& step_count [[buffer(6)]],
    constant long& is_shared [[buffer(7)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup uint after[BLOCK];
  const uint rows = row_count, columns = column_count, steps = step_count;
  const uint begin = group.x * BLOCK, end = min(begin + BLOCK, rows), width = is_wide ? steps : columns;
  const long matrix = group.y;
  after[lane] = row_after(pivots + (is_shared ? 0 : matrix * steps), steps, rows, min(begin + lane, rows - 1));
  simdgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = begin; i < end; i++) {
    const uint from = is_forward ? i : after[i - begin], to = is_forward ? after[i - begin] : i;
    device T* row = out + (matrix * rows + to) * columns;
    for (uint j = lane; j < width; j += LANES) {
      if (is_tall && from >= steps) {
        row[j] = rest[(matrix * (rows - steps) + from - steps) * steps + j];
      } else {
        row[j] = square[(matrix * (is_tall ? steps : rows) + from) * width + j];
      }
    }
    if (is_wide) {
      for (uint j = steps + lane; j < columns; j += LANES) {
        row[j] = rest[(matrix * steps + from) * (columns - steps) + j - steps];
      }
    }
  }
}

// Whether each pivot is one of the rows: {0, 0, 0}, or {1, place, value} of the first that is not.
[[kernel]] void check_pivots(
    device const int* pivots [[buffer(0)]],
    device long* errors [[buffer(1)]],
    constant long& count [[buffer(2)]],
    constant long& rows [[buffer(3)]],
    uint lane [[thread_index_in_simdgroup]]) {
  uint first = ~0u;
  for (uint i = lane; i < uint(count); i += LANES) {
    first = (pivots[i] < 1 || pivots[i] > int(rows)) && i < first ? i : first;
  }
  first = simd_min(first);
  if (lane == 0) {
    const bool is_wrong = first != ~0u;
    errors[0] = is_wrong;
    errors[1] = is_wrong ? first : 0;
    errors[2] = is_wrong ? pivots[first] : 0;
  }
}

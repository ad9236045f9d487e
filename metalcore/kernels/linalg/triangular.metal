// M X = B with a triangular M of n rows: a block on the diagonal of a, or its transpose. Only that triangle of it is
// read. X M = B is solved as M^T X^T = B^T. b and x are blocks of bigger matrices, of the same place in both; where
// copies is set, x is a new matrix, and what lies outside the block is copied from b.
#include <metal_stdlib>
using namespace metal;

constant bool is_upper [[function_constant(0)]];       // which triangle of a holds numbers
constant bool is_transposed [[function_constant(1)]];  // M is the transpose of what stands in a
constant bool is_unit [[function_constant(2)]];        // the diagonal is 1 and not read
constant bool is_right [[function_constant(3)]];       // rows of b, not columns, are right-hand sides
constant bool copies [[function_constant(4)]];

constant constexpr uint LANES = 32;
constant constexpr uint PITCH = 33;
constant constexpr uint BLOCK = 64;   // most rows of M where a thread has a right-hand side
constant constexpr uint LONG = 2048;  // most rows of M where a simdgroup has one

// Numbers outside the block, for threadgroup `share` of `shares`.
template <typename T>
inline void copy_rest(device const T* b, device T* x, uint row, uint column, uint rows, uint columns, uint whole_rows,
                      uint pitch, uint share, uint shares, uint lane) {
  for (uint i = share; i < whole_rows; i += shares) {
    const bool is_inside = i >= row && i < row + rows;
    for (uint j = lane; j < pitch; j += LANES) {
      if (!(is_inside && j >= column && j < column + columns)) {
        x[long(i) * pitch + j] = b[long(i) * pitch + j];
      }
    }
  }
}

// One simdgroup has 32 right-hand sides, a thread one: n <= BLOCK. Rows are solved two by two, so that a number of x is
// read once for both.
template <typename T>
[[kernel]] void solve_triangular_block(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device T* x [[buffer(2)]],
    constant long& size [[buffer(3)]],
    constant long& sides [[buffer(4)]],
    constant long& a_begin [[buffer(5)]],
    constant long& a_pitch [[buffer(6)]],
    constant long& a_stride [[buffer(7)]],
    constant long& row [[buffer(8)]],
    constant long& column [[buffer(9)]],
    constant long& b_pitch [[buffer(10)]],
    constant long& b_rows [[buffer(11)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint2 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float tile[BLOCK * PITCH];
  const uint n = size, pitch = b_pitch;
  const bool is_forward = is_upper == is_transposed;
  const uint first = group.x * LANES;
  a += group.y * a_stride + a_begin;
  b += group.y * b_rows * b_pitch;
  x += group.y * b_rows * b_pitch;
  if (copies) {
    copy_rest(b, x, row, column, is_right ? uint(sides) : n, is_right ? n : uint(sides), b_rows, pitch, group.x,
              groups.x, lane);
  }
  if (first >= sides) {
    return;
  }
  const uint filled = min(LANES, uint(sides) - first);
  const bool is_side = lane < filled;
  const long corner = row * b_pitch + column + first * (is_right ? b_pitch : 1);
  b += corner;
  x += corner;
  if (is_right) {
    for (uint j = 0; j < filled; j++) {
      for (uint i = lane; i < n; i += LANES) {
        tile[i * PITCH + j] = b[j * b_pitch + i];
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  } else {
    for (uint i = 0; i < n; i++) {
      tile[i * PITCH + lane] = is_side ? float(b[i * b_pitch + lane]) : 0.0f;
    }
  }
  const long across = is_transposed ? 1 : a_pitch, along = is_transposed ? a_pitch : 1;
  threadgroup float* mine = tile + lane;
  for (uint step = 0; step < n; step += 2) {
    const uint p = is_forward ? step : n - 1 - step;
    const bool is_pair = step + 1 < n;
    const uint q = !is_pair ? p : is_forward ? p + 1 : p - 1;
    const uint begin = is_forward ? 0 : p + 1, end = is_forward ? p : n;
    device const T* mp = a + p * across;
    device const T* mq = a + q * across;
    float sp = mine[p * PITCH], sq = mine[q * PITCH];
    for (uint k = begin; k < end; k++) {
      const float value = mine[k * PITCH];
      sp = fma(-float(mp[k * along]), value, sp);
      sq = fma(-float(mq[k * along]), value, sq);
    }
    sp = is_unit ? sp : sp / float(mp[p * along]);
    mine[p * PITCH] = sp;
    if (is_pair) {
      sq = fma(-float(mq[p * along]), sp, sq);
      mine[q * PITCH] = is_unit ? sq : sq / float(mq[q * along]);
    }
  }
  if (is_right) {
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint j = 0; j < filled; j++) {
      for (uint i = lane; i < n; i += LANES) {
        x[j * b_pitch + i] = T(tile[i * PITCH + j]);
      }
    }
  } else {
    for (uint i = 0; i < n; i++) {
      if (is_side) {
        x[i * b_pitch + lane] = T(mine[i * PITCH]);
      }
    }
  }
}

// One simdgroup has one right-hand side of the whole b: n <= LONG. Lanes run along rows of a.
template <typename T>
[[kernel]] void solve_triangular_vector(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device T* x [[buffer(2)]],
    constant long& size [[buffer(3)]],
    constant long& sides [[buffer(4)]],
    constant long& a_stride [[buffer(5)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float mine[LONG];
  const uint n = size;
  const bool is_forward = is_upper == is_transposed;
  a += group.y * a_stride;
  const long corner = group.y * sides * size + group.x * (is_right ? size : 1);
  const long along = is_right ? 1 : sides;
  b += corner;
  x += corner;
  for (uint i = lane; i < n; i += LANES) {
    mine[i] = b[i * along];
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  for (uint step = 0; step < n; step++) {
    const uint p = is_forward ? step : n - 1 - step;
    device const T* line = a + long(p) * n;
    const uint begin = is_upper ? p + 1 : 0, end = is_upper ? n : p;
    if (is_transposed) {
      const float value = is_unit ? mine[p] : mine[p] / float(line[p]);
      simdgroup_barrier(mem_flags::mem_threadgroup);
      if (lane == 0) {
        mine[p] = value;
      }
      for (uint k = begin + lane; k < end; k += LANES) {
        mine[k] = fma(-float(line[k]), value, mine[k]);
      }
    } else {
      float sum = 0;
      for (uint k = begin + lane; k < end; k += LANES) {
        sum = fma(float(line[k]), mine[k], sum);
      }
      sum = mine[p] - simd_sum(sum);
      simdgroup_barrier(mem_flags::mem_threadgroup);
      if (lane == 0) {
        mine[p] = is_unit ? sum : sum / float(line[p]);
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (uint i = lane; i < n; i += LANES) {
    x[i * along] = T(mine[i]);
  }
}

constant bool is_mirrored [[function_constant(5)]];   // the other triangle gets the same numbers, else 0
constant bool has_diagonal [[function_constant(6)]];  // else it gets 0

// The upper or lower triangle of each matrix, times `scale`; a threadgroup has 32 rows.
template <typename T>
[[kernel]] void take_triangle(
    device const T* a [[buffer(0)]],
    device T* out [[buffer(1)]],
    constant long& rows [[buffer(2)]],
    constant long& columns [[buffer(3)]],
    constant float& scale [[buffer(4)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const long corner = group.y * rows * columns;
  const uint width = columns, end = min(group.x * LANES + LANES, uint(rows));
  a += corner;
  out += corner;
  for (uint i = group.x * LANES; i < end; i++) {
    for (uint j = lane; j < width; j += LANES) {
      const bool is_kept = i == j ? has_diagonal : (j > i) == is_upper;
      float value = is_kept ? float(a[i * columns + j]) : 0.0f;
      if (is_mirrored && !is_kept && i != j) {
        value = a[j * columns + i];
      }
      out[i * columns + j] = T(scale * value);
    }
  }
}

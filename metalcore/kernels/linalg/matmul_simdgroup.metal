// The same products as matmul.metal, by simdgroup_matrix.
#include <metal_simdgroup_matrix>
#include "linalg/matmul.h"

constant constexpr uint SIMDGROUPS = 4;
constant constexpr uint DEPTH = 32;

// A threadgroup of 4 simdgroups has ROWS x COLUMNS numbers of c, as DOWN x (4 / DOWN) parts of 8 x 8 matrices. Pieces
// of a and b go through threadgroup memory, with zeros beyond the last row and column; so do the sums.
template <typename T, uint ROWS, uint COLUMNS, uint DOWN, uint TRANSPOSE_A, uint TRANSPOSE_B>
[[kernel]] void matmul_simdgroup(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device const T* c [[buffer(2)]],
    device T* out [[buffer(3)]],
    constant long& rows [[buffer(4)]],
    constant long& columns [[buffer(5)]],
    constant long& depth [[buffer(6)]],
    constant long& a_begin [[buffer(7)]],
    constant long& a_pitch [[buffer(8)]],
    constant long& a_stride [[buffer(9)]],
    constant long& b_begin [[buffer(10)]],
    constant long& b_pitch [[buffer(11)]],
    constant long& b_stride [[buffer(12)]],
    constant long& c_begin [[buffer(13)]],
    constant long& c_pitch [[buffer(14)]],
    constant long& c_rows [[buffer(15)]],
    constant float& alpha [[buffer(16)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]]) {
  constexpr uint DOWN_8 = ROWS / DOWN / 8, ACROSS_8 = COLUMNS / (SIMDGROUPS / DOWN) / 8;
  constexpr uint THREADS = SIMDGROUPS * LANES;
  constexpr uint PIECES = (ROWS + COLUMNS) * DEPTH, SUMS = ROWS * COLUMNS;
  threadgroup float tile[PIECES > SUMS ? PIECES : SUMS];
  threadgroup float* a_tile = tile;                 // ROWS x DEPTH
  threadgroup float* b_tile = tile + ROWS * DEPTH;  // DEPTH x COLUMNS
  const uint lid = simd_group_id * LANES + lane;
  const uint tiles = uint((rows + ROWS - 1) / ROWS);
  const long matrix = group.z;
  if (copies && group.y >= tiles) {
    const long size = c_rows * c_pitch;
    copy_rest(c + matrix * size, out + matrix * size, c_begin, rows, columns, c_rows, c_pitch,
              (group.y - tiles) * groups.x + group.x, (groups.y - tiles) * groups.x, lid, THREADS);
    return;
  }
  const uint first_row = group.y * ROWS, first_column = group.x * COLUMNS;
  const uint here = min(ROWS, uint(rows) - first_row), filled = min(COLUMNS, uint(columns) - first_column);
  const long corner = matrix * c_rows * c_pitch + c_begin + first_row * c_pitch + first_column;
  device const T* from = c + corner;
  device T* to = out + corner;
  const bool is_needed = !(is_lower && first_column > first_row + here - 1);
  const uint row = simd_group_id / (SIMDGROUPS / DOWN) * DOWN_8 * 8;
  const uint column = simd_group_id % (SIMDGROUPS / DOWN) * ACROSS_8 * 8;
  a += matrix * a_stride + a_begin + first_row * (TRANSPOSE_A ? 1 : a_pitch);
  b += matrix * b_stride + b_begin + first_column * (TRANSPOSE_B ? b_pitch : 1);

  simdgroup_float8x8 sums[DOWN_8][ACROSS_8];
  for (uint i = 0; i < DOWN_8; i++) {
    for (uint j = 0; j < ACROSS_8; j++) {
      sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
  }
  for (uint start = 0; is_needed && start < depth; start += DEPTH) {
    const uint steps = min(DEPTH, uint(depth) - start);
#pragma clang loop unroll(disable)
    for (uint e = lid; e < ROWS * DEPTH; e += THREADS) {  // along memory
      const uint i = TRANSPOSE_A ? e % ROWS : e / DEPTH, k = TRANSPOSE_A ? e / ROWS : e % DEPTH;
      const long at = TRANSPOSE_A ? (start + k) * a_pitch + i : i * a_pitch + start + k;
      a_tile[i * DEPTH + k] = i < here && k < steps ? float(a[at]) : 0.0f;
    }
#pragma clang loop unroll(disable)
    for (uint e = lid; e < COLUMNS * DEPTH; e += THREADS) {
      const uint j = TRANSPOSE_B ? e / DEPTH : e % COLUMNS, k = TRANSPOSE_B ? e % DEPTH : e / COLUMNS;
      const long at = TRANSPOSE_B ? j * b_pitch + start + k : (start + k) * b_pitch + j;
      b_tile[k * COLUMNS + j] = j < filled && k < steps ? float(b[at]) : 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(disable)
    for (uint k = 0; k < DEPTH; k += 8) {
      simdgroup_float8x8 left[DOWN_8], right[ACROSS_8];
      for (uint i = 0; i < DOWN_8; i++) {
        simdgroup_load(left[i], a_tile + (row + i * 8) * DEPTH + k, DEPTH);
      }
      for (uint j = 0; j < ACROSS_8; j++) {
        simdgroup_load(right[j], b_tile + k * COLUMNS + column + j * 8, COLUMNS);
      }
      for (uint i = 0; i < DOWN_8; i++) {
        for (uint j = 0; j < ACROSS_8; j++) {
          simdgroup_multiply_accumulate(sums[i][j], left[i], right[j], sums[i][j]);
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (uint i = 0; i < DOWN_8; i++) {
    for (uint j = 0; j < ACROSS_8; j++) {
      simdgroup_store(sums[i][j], tile + (row + i * 8) * COLUMNS + column + j * 8, COLUMNS);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(disable)
  for (uint e = lid; e < ROWS * COLUMNS; e += THREADS) {
    const uint i = e / COLUMNS, j = e % COLUMNS;
    if (i < here && j < filled && (is_needed || copies)) {
      add_sum(from, to, i * uint(c_pitch) + j, alpha * tile[e], false);
    }
  }
}

// out = alpha op(a) op(b), or out = c + alpha op(a) op(b) on a block of c; op transposes or not. A batch of matrices,
// each described by where its block begins, the distance of rows and the distance of matrices (0: the same for all).
#include "linalg/matmul.h"

constant constexpr uint EACH = 2;  // rows of c that a thread computes: 2 sums of 32 lanes and a row of b fit a CPU's registers

// Sums of two rows of a, numbers of which lie `step` apart, times a column of b.
template <typename P>
inline float2 multiply_rows(P a0, P a1, uint step, threadgroup const float* b, uint pitch, uint steps) {
  float s0 = 0, s1 = 0;
  for (uint k = 0; k < steps; k++) {
    const float value = b[k * pitch];
    s0 = fma(float(a0[k * step]), value, s0);
    s1 = fma(float(a1[k * step]), value, s1);
  }
  return float2(s0, s1);
}

// Tiles through threadgroup memory. A threadgroup has ROWS x COLUMNS numbers of c, a thread EACH of a column at a time.
// Columns of b come in pieces of DEPTH, laid out with COLUMNS numbers a row and zeros beyond the last; a is read as it
// stands, or 32 rows of it laid out too where it is transposed.
template <typename T, uint ROWS, uint COLUMNS, uint TRANSPOSE_A, uint TRANSPOSE_B>
[[kernel]] void matmul_tiled(
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
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  constexpr uint ACROSS = LANES / COLUMNS;  // rows of c that the lanes of a simdgroup lie in
  constexpr uint DEPTH = TRANSPOSE_A ? 64 : 128;  // numbers of a row of a between two visits of c
  constexpr uint BLOCK = TRANSPOSE_A ? 32 : ROWS;  // rows of a between two barriers
  threadgroup float b_tile[DEPTH * COLUMNS];
  threadgroup float a_tile[TRANSPOSE_A ? DEPTH * BLOCK : 1];
  const uint lid = simd_group_id * LANES + lane, threads = simd_groups * LANES;
  const uint tiles = uint((rows + ROWS - 1) / ROWS);
  const long matrix = group.z;
  if (copies && group.y >= tiles) {
    const long size = c_rows * c_pitch;
    copy_rest(c + matrix * size, out + matrix * size, c_begin, rows, columns, c_rows, c_pitch,
              (group.y - tiles) * groups.x + group.x, (groups.y - tiles) * groups.x, lid, threads);
    return;
  }
  const uint first_row = group.y * ROWS, first_column = group.x * COLUMNS;
  const uint here = min(ROWS, uint(rows) - first_row);
  const uint column = COLUMNS == LANES ? lane : lane % COLUMNS;
  const uint across = COLUMNS == LANES ? 0 : lane / COLUMNS;
  const bool is_column = first_column + column < columns;
  const long corner = matrix * c_rows * c_pitch + c_begin + first_row * c_pitch + first_column;
  device const T* from = c + corner;
  device T* to = out + corner;
  const uint pitch = c_pitch;
  if (is_lower && first_column > first_row + here - 1) {
    if (copies) {
      for (uint i = simd_group_id * ACROSS + across; i < here; i += simd_groups * ACROSS) {
        if (is_column) {
          to[i * pitch + column] = from[i * pitch + column];
        }
      }
    }
    return;
  }
  a += matrix * a_stride + a_begin + first_row * (TRANSPOSE_A ? 1 : a_pitch);
  b += matrix * b_stride + b_begin + first_column * (TRANSPOSE_B ? b_pitch : 1);
  const uint filled = min(COLUMNS, uint(columns) - first_column);
  for (uint start = 0; start < depth || start == 0; start += DEPTH) {
    const uint steps = min(DEPTH, uint(depth) - start);
    if (TRANSPOSE_B) {
      for (uint j = simd_group_id; j < filled; j += simd_groups) {
        device const T* row = b + j * b_pitch + start;
        for (uint k = lane; k < steps; k += LANES) {
          b_tile[k * COLUMNS + j] = row[k];
        }
      }
      if (filled < COLUMNS) {
        for (uint k = simd_group_id * ACROSS + across; k < steps; k += simd_groups * ACROSS) {
          if (!is_column) {
            b_tile[k * COLUMNS + column] = 0;
          }
        }
      }
    } else {
      for (uint k = simd_group_id * ACROSS + across; k < steps; k += simd_groups * ACROSS) {
        b_tile[k * COLUMNS + column] = is_column ? float(b[(start + k) * b_pitch + column]) : 0.0f;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint block = 0; block < here; block += BLOCK) {
      const uint end = min(block + BLOCK, here);
      if (TRANSPOSE_A) {
        for (uint k = simd_group_id; k < steps; k += simd_groups) {
          a_tile[k * BLOCK + lane] = block + lane < end ? float(a[(start + k) * a_pitch + block + lane]) : 0.0f;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
      }
      for (uint i = block + simd_group_id * ACROSS * EACH + across; i < end; i += simd_groups * ACROSS * EACH) {
        const uint next = min(i + ACROSS, end - 1);  // a row beyond the last is not stored
        float2 sums;
        if (TRANSPOSE_A) {
          threadgroup const float* first = a_tile + (i - block);
          sums = multiply_rows(first, first + (next - i), BLOCK, b_tile + column, COLUMNS, steps);
        } else {
          device const T* first = a + i * a_pitch + start;
          sums = multiply_rows(first, a + next * a_pitch + start, 1, b_tile + column, COLUMNS, steps);
        }
        if (is_column) {
          add_sum(from, to, i * pitch + column, alpha * sums.x, start > 0);
          if (i + ACROSS < end) {
            add_sum(from, to, next * pitch + column, alpha * sums.y, start > 0);
          }
        }
      }
      if (TRANSPOSE_A) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// P^T A = L U with partial pivoting, L and U in one matrix as LAPACK's getrf has them; pivots count from 1. info is the
// number of the first column whose pivot is 0, or 0.
#include "linalg/lu.h"
#include "linalg/lu_group.h"

constant bool exchanges [[function_constant(0)]];  // rows, for the largest pivot
constant bool copies [[function_constant(1)]];

// One thread a matrix of at most N rows and columns.
template <typename T, uint N>
[[kernel]] void lu_lanes(
    device const T* a [[buffer(0)]],
    device T* factors [[buffer(1)]],
    device int* pivots [[buffer(2)]],
    device int* info [[buffer(3)]],
    constant long& count [[buffer(4)]],
    constant long& row_count [[buffer(5)]],
    constant long& column_count [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;  // columns of a power of two would share few lines of the cache
  threadgroup float tile[LANE_TILE];
  float work[N * PITCH];
  float exchanged[N];
  const uint rows = row_count, columns = column_count, steps = min(rows, columns);
  const long first = long(group) * LANES;
  load_lanes(a, work, tile, rows, columns, PITCH, first, count, lane);
  const int failed = eliminate_lanes<N, PITCH, true>(work, exchanged, rows, columns, steps, exchanges);
  store_lanes(work, factors, tile, rows, columns, PITCH, first, count, lane);
  for (uint k = 0; k < steps; k++) {
    exchanged[k] += 1;
  }
  store_lanes(exchanged, pivots, tile, 1, steps, N, first, count, lane);
  if (first + lane < count) {
    info[first + lane] = failed;
  }
}

// Columns [begin, begin + BLOCK) of each matrix, from row `begin` on: the panel, row after row, is factorised. Where there
// are not so many columns it is filled up with zeros. Pivots of earlier panels are copied.
template <typename T>
[[kernel]] void lu_panel(
    device const T* a [[buffer(0)]],
    device const int* pivots_before [[buffer(1)]],
    device T* panels [[buffer(2)]],
    device int* pivots [[buffer(3)]],
    device int* info [[buffer(4)]],
    constant long& rows [[buffer(5)]],
    constant long& columns [[buffer(6)]],
    constant long& begin [[buffer(7)]],
    uint group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
  threadgroup float sizes[32];
  threadgroup uint places[32];
  const Place at = {thread_index, threads, lane, simdgroup, simdgroups};
  const uint start = begin, width = min(BLOCK, uint(columns) - start), height = rows - begin;
  const uint steps = min(height, width);
  const long all_steps = min(rows, columns);
  device const T* matrix = a + group * rows * columns;
  device T* panel = panels + group * long(height) * BLOCK;
  device int* own = pivots + group * all_steps;
  for (uint i = simdgroup; i < height; i += simdgroups) {
    T x = 0;
    if (lane < width) {
      x = matrix[(start + i) * columns + start + lane];
    }
    panel[i * BLOCK + lane] = x;
  }
  for (uint k = thread_index; k < start; k += threads) {
    own[k] = pivots_before[group * all_steps + k];
  }
  share();
  factor_panel(panel, height, width, own + start, start, exchanges, sizes, places, at);
  if (simdgroup == 0) {
    uint failed = ~0u;
    for (uint k = lane; k < start; k += LANES) {
      failed = matrix[k * (columns + 1)] == 0 ? min(failed, k) : failed;
    }
    for (uint k = lane; k < steps; k += LANES) {
      failed = panel[k * (BLOCK + 1)] == 0 ? min(failed, start + k) : failed;
    }
    failed = simd_min(failed);
    if (lane == 0) {
      info[group] = failed + 1;
    }
  }
}

// What a factorised panel means for 32 other columns of its matrix: rows are exchanged, and right of the panel those of
// U are solved for and L times U is subtracted from what is below. Where `copies`, `after` is another array.
template <typename T>
[[kernel]] void lu_apply(
    device const T* before [[buffer(0)]],
    device const T* panels [[buffer(1)]],
    device const int* pivots [[buffer(2)]],
    device T* after [[buffer(3)]],
    constant long& rows [[buffer(4)]],
    constant long& columns [[buffer(5)]],
    constant long& begin [[buffer(6)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]],
    uint2 group_size [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
  const uint threads = group_size.x;
  threadgroup float tile[BLOCK * BLOCK];
  const Place at = {thread_index, threads, lane, simdgroup, simdgroups};
  const uint height = rows - begin, steps = min(height, min(BLOCK, uint(columns - begin)));
  const uint first = group.x * BLOCK;
  const bool is_inside = first + lane < uint(columns);
  device const T* panel = panels + group.y * long(height) * BLOCK;
  device T* column = after + group.y * rows * columns + first + lane;
  if (copies) {
    device const T* from = before + group.y * rows * columns + first + lane;
    for (uint i = simdgroup; i < uint(rows); i += simdgroups) {
      if (is_inside) {
        column[i * columns] = from[i * columns];
      }
    }
    share();
  }
  if (first == uint(begin)) {
    for (uint i = simdgroup; i < height; i += simdgroups) {
      if (is_inside) {
        column[(begin + i) * columns] = panel[i * BLOCK + lane];
      }
    }
    return;
  }
  if (simdgroup == 0) {
    exchange_rows(column, columns, pivots + group.y * min(rows, columns), uint(begin), uint(begin) + steps,
                  uint(rows), false, is_inside);
  }
  if (first < uint(begin)) {
    return;
  }
  device T* below = column + begin * columns;
  if (simdgroup == 0) {
    solve_block<T, false, true, false>(below, columns, panel, BLOCK, 0, steps, 0, tile, is_inside, lane);
  }
  share();
  subtract_product<T, false>(below, columns, panel, BLOCK, steps, height, 0, steps, tile, is_inside, at);
}

// QR of up to 32 columns and any number of rows, one matrix a threadgroup: a lane has a column, simdgroups share the
// rows. The reflectors come out as one product, I - V T V^T.
#include "linalg/compact_wy.h"
#include "linalg/householder.h"

constant bool is_packed [[function_constant(0)]];  // out is the whole matrix, with R and v in the block; else it is R
constant bool copies [[function_constant(1)]];     // out is a new matrix: what lies outside the block is copied from a

// Sums of the products of column j, times `scale`, with all columns, over the rows after j; column j itself is scaled too.
template <typename T>
inline float column_products(device const T* v, uint rows, uint j, float scale, Team team) {
  const float own = team.lane == j ? scale : 1.0f;
  float sum = 0;
  for (uint i = j + 1 + team.group; i < rows; i += team.groups) {
    sum += v[i * LANES + j] * scale * (v[i * LANES + team.lane] * own);
  }
  return team.finish(sum, false);
}

// The panel in `v`, LANES numbers a row, becomes R and the v below it. Lane j returns tau of column j; `products` gets
// v_l^T v_j for l < j at [j * LANES + l].
template <typename T>
inline float factorise_panel(device T* v, threadgroup float* products, uint rows, uint columns, Team team) {
  const uint lane = team.lane, least = min(rows, columns);
  float own_tau = 0, sum = column_products(v, rows, 0, 1.0f, team);
  for (uint j = 0; j < least; j++) {
    float scale = 1;
    const float known = simd_broadcast(sum, ushort(j));
    if (!(known > 0x1p-20f && known < 0x1p60f)) {
      float most = 0;
      for (uint i = j + team.group; i < rows; i += team.groups) {
        most = max(most, fabs(v[i * LANES + lane]));
      }
      scale = column_scale(simd_broadcast(team.finish(most, true), ushort(j)));
      sum = column_products(v, rows, j, scale, team);
    }
    const float row = v[j * LANES + lane];
    const Reflector h = reflector(simd_broadcast(row, ushort(j)) * scale, simd_broadcast(sum, ushort(j)));
    const float product = row + sum * h.inverse;  // v_j^T times this column
    const float w = lane > j && lane < columns ? h.tau * product : 0.0f;
    const uint next = min(j + 1, columns - 1);
    const float next_w = simd_broadcast(w, ushort(next));
    const float factor = lane == j ? scale : 1.0f, second = lane == j ? h.inverse : 1.0f;
    own_tau = lane == j ? h.tau : own_tau;
    threadgroup_barrier(mem_flags::mem_device);  // all have read row j
    if (team.group == 0) {
      products[j * LANES + lane] = product;
      v[j * LANES + lane] = lane == j ? h.beta / scale : row - w;
    }
    sum = 0;
    for (uint i = j + 1 + team.group; i < rows; i += team.groups) {
      device T* at = v + i * LANES;
      // Both are rounded once: `following` must be just what lane `next` stores
      const float own = at[j] * scale * h.inverse, following = fma(-own, next_w, float(at[next]));
      const float value = fma(-own, w, at[lane] * factor * second);
      simdgroup_barrier(mem_flags::mem_device);  // all have read the columns j and next
      at[lane] = value;
      sum += i > j + 1 ? following * value : 0.0f;
    }
    sum = team.finish(sum, false);
  }
  return own_tau;
}

template <typename T>
[[kernel]] void qr_panel(
    device const T* a [[buffer(0)]],
    device const T* head [[buffer(1)]],
    device T* out [[buffer(2)]],
    device T* v [[buffer(3)]],
    device T* t [[buffer(4)]],
    device T* tau [[buffer(5)]],
    constant long& row_count [[buffer(6)]],
    constant long& column_count [[buffer(7)]],
    constant long& begin [[buffer(8)]],
    constant long& pitch [[buffer(9)]],
    constant long& stride [[buffer(10)]],
    constant long& head_rows [[buffer(11)]],
    constant long& head_stride [[buffer(12)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint2 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[SIMDGROUPS * LANES], products[LANES * LANES];
  const uint rows = row_count, columns = column_count, least = min(rows, columns), matrix = group.y;
  device const T* whole = a + matrix * stride;
  if (copies && group.x > 0) {
    const long row = begin / pitch, column = begin % pitch;
    const long shares = long(groups.x - 1) * simd_groups, share = long(group.x - 1) * simd_groups + simd_group_id;
    for (long i = share; i < stride / pitch; i += shares) {
      for (long j = lane; j < pitch; j += LANES) {
        if (i < row || j < column || i >= row + rows || j >= column + columns) {
          out[matrix * stride + i * pitch + j] = whole[i * pitch + j];
        }
      }
    }
    return;
  }
  const Team team = {partial, lane, simd_group_id, simd_groups};
  device T* work = v + long(matrix) * rows * LANES;
  const uint top = head_rows;
  float most = 0;
  for (uint i = simd_group_id; i < rows; i += simd_groups) {
    device const T* from = i < top ? head + matrix * head_stride + i * columns : whole + begin + long(i - top) * pitch;
    const float value = lane < columns ? float(from[lane]) : 0.0f;
    most = max(most, fabs(value));
    work[i * LANES + lane] = value;
  }
  const float scale = matrix_scale(simd_max(team.finish(most, true)));
  if (scale != 1) {
    for (uint i = simd_group_id; i < rows; i += simd_groups) {
      work[i * LANES + lane] *= scale;
    }
  }
  threadgroup_barrier(mem_flags::mem_device);
  const float own_tau = factorise_panel(work, products, rows, columns, team);
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  const float back = 1 / scale;
  if (is_packed) {
    device T* to = out + matrix * stride + begin;
    for (uint i = simd_group_id; i < rows; i += simd_groups) {
      if (lane < columns) {
        to[long(i) * pitch + lane] = i > lane ? float(work[i * LANES + lane]) : work[i * LANES + lane] * back;
      }
    }
  } else {
    for (uint i = simd_group_id; i < least; i += simd_groups) {
      if (lane < columns) {
        out[(long(matrix) * least + i) * columns + lane] = i > lane ? 0.0f : work[i * LANES + lane] * back;
      }
    }
  }
  for (uint i = simd_group_id; i < least; i += simd_groups) {
    work[i * LANES + lane] = i > lane ? float(work[i * LANES + lane]) : i == lane ? 1.0f : 0.0f;
  }
  if (simd_group_id == 0) {
    if (lane < least) {
      tau[long(matrix) * least + lane] = own_tau;
    }
    write_factor(t + long(matrix) * LANES * LANES, partial, products, own_tau, least, lane);
  }
}

// The first columns of I - V T V^T, or this times [E; 0]: blocks of rows. E has k x columns numbers, k those of V; of
// `e`, one such matrix is left out before each `e_group` of them.
template <typename T>
[[kernel]] void qr_panel_q(
    device const T* v [[buffer(0)]],
    device const T* t [[buffer(1)]],
    device const T* e [[buffer(2)]],
    device T* q [[buffer(3)]],
    constant long& row_count [[buffer(4)]],
    constant long& reflectors [[buffer(5)]],
    constant long& column_count [[buffer(6)]],
    constant long& block_rows [[buffer(7)]],
    constant long& has_e [[buffer(8)]],
    constant long& e_group [[buffer(9)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float z[LANES * LANES], y[LANES * LANES];
  const uint rows = row_count, k = reflectors, columns = column_count, matrix = group.y;
  device const T* from = v + long(matrix) * rows * LANES;
  device const T* factor = t + long(matrix) * LANES * LANES;
  const long left_out = has_e != 0 ? 1 + matrix / e_group : 0;
  device const T* above = e + (matrix + left_out) * k * columns;
  for (uint i = simd_group_id; i < k; i += simd_groups) {  // z = V^T [E; 0], a lane has a column
    float sum = 0;
    if (has_e != 0) {
      for (uint l = i; l < k; l++) {
        sum += from[l * LANES + i] * (lane < columns ? float(above[l * columns + lane]) : 0.0f);
      }
    } else {
      sum = from[min(lane, rows - 1) * LANES + i];
    }
    z[i * LANES + lane] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = simd_group_id; i < k; i += simd_groups) {
    float sum = 0;
    for (uint l = i; l < k; l++) {
      sum += factor[i * LANES + l] * z[l * LANES + lane];
    }
    y[i * LANES + lane] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint first = group.x * uint(block_rows), last = min(rows, first + uint(block_rows));
  for (uint i = first + simd_group_id; i < last; i += simd_groups) {
    float sum = 0;
    for (uint l = 0; l < k; l++) {
      sum += from[i * LANES + l] * y[l * LANES + lane];
    }
    if (lane < columns) {
      const float there = has_e != 0 ? (i < k ? float(above[i * columns + lane]) : 0.0f) : (i == lane ? 1.0f : 0.0f);
      q[(long(matrix) * rows + i) * columns + lane] = there - sum;
    }
  }
}

// What a matrix is scaled by, and the scaled copy: one threadgroup a matrix.
template <typename T>
[[kernel]] void qr_scaled(
    device const T* a [[buffer(0)]],
    device T* out [[buffer(1)]],
    device T* scales [[buffer(2)]],
    constant long& size [[buffer(3)]],
    uint matrix [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[SIMDGROUPS * LANES];
  const Team team = {partial, lane, simd_group_id, simd_groups};
  const uint threads = simd_groups * LANES, count = size;
  device const T* from = a + matrix * size;
  float most = 0;
  for (uint i = lid; i < count; i += threads) {
    most = max(most, fabs(float(from[i])));
  }
  const float scale = matrix_scale(simd_max(team.finish(most, true)));
  for (uint i = lid; i < count; i += threads) {
    out[matrix * size + i] = from[i] * scale;
  }
  if (lid == 0) {
    scales[matrix] = scale;
  }
}

// The rows of R, with the scale taken back and zeros below the diagonal. A threadgroup has a row.
template <typename T>
[[kernel]] void qr_upper(
    device const T* a [[buffer(0)]],
    device const T* scales [[buffer(1)]],
    device T* r [[buffer(2)]],
    constant long& row_count [[buffer(3)]],
    constant long& column_count [[buffer(4)]],
    constant long& r_rows [[buffer(5)]],
    constant long& keeps_lower [[buffer(6)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint2 group_size [[threads_per_threadgroup]]) {
  const uint threads = group_size.x;
  const uint row = group.x, columns = column_count;
  const float back = 1 / scales[group.y];
  device const T* from = a + (group.y * row_count + row) * columns;
  device T* to = r + (group.y * r_rows + row) * columns;
  for (uint j = lid; j < columns; j += threads) {
    to[j] = j >= row ? from[j] * back : keeps_lower != 0 ? float(from[j]) : 0.0f;
  }
}

// The first columns of the identity. A threadgroup has a row.
template <typename T>
[[kernel]] void qr_identity(
    device T* q [[buffer(0)]],
    constant long& row_count [[buffer(1)]],
    constant long& column_count [[buffer(2)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint2 group_size [[threads_per_threadgroup]]) {
  const uint threads = group_size.x;
  const uint columns = column_count;
  device T* to = q + (group.y * row_count + group.x) * columns;
  for (uint j = lid; j < columns; j += threads) {
    to[j] = j == group.x ? 1.0f : 0.0f;
  }
}

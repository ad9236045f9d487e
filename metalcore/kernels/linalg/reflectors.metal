// The compact form of given reflectors, and the gradient of their product.
#include "linalg/compact_wy.h"

// V, LANES columns with 1 on the diagonal and 0 above it, and T, of up to 32 columns of `a` from row and column `first`
// on: one matrix a threadgroup.
template <typename T>
[[kernel]] void compact_reflectors(
    device const T* a [[buffer(0)]],
    device const T* tau [[buffer(1)]],
    device T* v [[buffer(2)]],
    device T* t [[buffer(3)]],
    constant long& row_count [[buffer(4)]],
    constant long& column_count [[buffer(5)]],
    constant long& all_reflectors [[buffer(6)]],
    constant long& first [[buffer(7)]],
    uint matrix [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[SIMDGROUPS * LANES], products[LANES * LANES];
  const Team team = {partial, lane, simd_group_id, simd_groups};
  const uint rows = row_count - first, columns = column_count, k = min(long(LANES), all_reflectors - first);
  device const T* from = a + (matrix * row_count + first) * columns + first;
  device T* work = v + long(matrix) * rows * LANES;
  for (uint i = simd_group_id; i < rows; i += simd_groups) {
    const float value = lane < k && i > lane ? float(from[long(i) * columns + lane]) : 0.0f;
    work[i * LANES + lane] = i == lane && lane < k ? 1.0f : value;
  }
  threadgroup_barrier(mem_flags::mem_device);
  for (uint j = 0; j < k; j++) {
    float sum = 0;
    for (uint i = j + simd_group_id; i < rows; i += simd_groups) {
      sum += work[i * LANES + j] * work[i * LANES + lane];
    }
    sum = team.finish(sum, false);
    if (simd_group_id == 0) {
      products[j * LANES + lane] = sum;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd_group_id == 0) {
    const float own_tau = lane < k ? float(tau[matrix * all_reflectors + first + lane]) : 0.0f;
    write_factor(t + long(matrix) * LANES * LANES, partial, products, own_tau, k, lane);
  }
}

// Gradients of Q = H_0 ... H_k-1 C, or of H_k-1 ... H_0 C where `is_reversed`, by v, tau and C, from that of Q. With
// G = H_i-1^T ... H_0^T dQ and P = H_i+1 ... H_k-1 C: dtau_i = -(G^T v)^T (P^T v), dv_i = -tau_i (G P^T v + P G^T v), and
// what G ends as is that of C. P goes from one step to the next by the inverse of H_i. One simdgroup a matrix; `p` is
// room for a copy of Q, `u` for two rows.
template <typename T>
[[kernel]] void householder_gradient(
    device const T* a [[buffer(0)]],
    device const T* tau [[buffer(1)]],
    device const T* q [[buffer(2)]],
    device const T* grad [[buffer(3)]],
    device T* p [[buffer(4)]],
    device T* g [[buffer(5)]],
    device T* u [[buffer(6)]],
    device T* grad_a [[buffer(7)]],
    device T* grad_tau [[buffer(8)]],
    constant long& row_count [[buffer(9)]],
    constant long& a_columns [[buffer(10)]],
    constant long& q_columns [[buffer(11)]],
    constant long& reflectors [[buffer(12)]],
    constant long& is_reversed [[buffer(13)]],
    uint matrix [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint rows = row_count, pitch = a_columns, n = q_columns, k = reflectors;
  const long place = long(matrix) * rows * n, a_place = long(matrix) * rows * pitch;
  device const T* v = a + a_place;
  device T* left = g + place;
  device T* right = p + place;
  device T* of_right = u + long(matrix) * 2 * n;
  device T* of_left = of_right + n;
  for (uint i = lane; i < rows * n; i += LANES) {
    left[i] = grad[place + i];
    right[i] = q[place + i];
  }
  for (uint i = lane; i < rows * pitch; i += LANES) {
    grad_a[a_place + i] = 0;
  }
  simdgroup_barrier(mem_flags::mem_device);
  for (uint step = 0; step < k; step++) {
    const uint j = is_reversed != 0 ? k - 1 - step : step;
    const float t = tau[matrix * reflectors + j];
    float squares = 0;
    for (uint i = j + 1 + lane; i < rows; i += LANES) {
      squares += v[i * pitch + j] * v[i * pitch + j];
    }
    squares = 1 + simd_sum(squares);
    const float inverse = t / (t * squares - 1);  // H^-1 = I - inverse v v^T
    float both = 0;
    for (uint c = lane; c < n; c += LANES) {
      float before = right[j * n + c], other = left[j * n + c];
      for (uint i = j + 1; i < rows; i++) {
        before += v[i * pitch + j] * right[i * n + c];
        other += v[i * pitch + j] * left[i * n + c];
      }
      of_right[c] = before;
      of_left[c] = other;
      both += before * (1 - inverse * squares) * other;
    }
    both = simd_sum(both);
    simdgroup_barrier(mem_flags::mem_device);
    for (uint i = j; i < rows; i++) {
      const float own = i == j ? 1.0f : float(v[i * pitch + j]);
      float sum = 0;
      for (uint c = lane; c < n; c += LANES) {
        const float there = right[i * n + c] - inverse * own * of_right[c], here = left[i * n + c];
        sum += here * (of_right[c] * (1 - inverse * squares)) + there * of_left[c];
        right[i * n + c] = there;
        left[i * n + c] = here - t * own * of_left[c];
      }
      sum = simd_sum(sum);
      if (i > j && lane == 0) {
        grad_a[a_place + i * pitch + j] = -t * sum;
      }
    }
    if (lane == 0) {
      grad_tau[matrix * reflectors + j] = -both;
    }
    simdgroup_barrier(mem_flags::mem_device);
  }
}

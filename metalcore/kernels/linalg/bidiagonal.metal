// A = P B Q^T of square matrices of any size, with an upper bidiagonal B: B[i][i] = d[i], B[i][i + 1] = e[i]. A is scaled by
// a power of two first. Reflections I - tau u u^T come from the left, I - tau v v^T from the right, as in LAPACK's gebd2.
// The rank-2 update of a step waits for the next one: then one pass over the matrix updates it and multiplies it with the
// next u, and a second one multiplies it with v.
#include "linalg/givens.h"
#include "linalg/rank_two.h"

struct Reflection {
  float value;   // what the first element becomes
  float tau;
  float factor;  // of the other elements
};

// Of the n elements at x, whose first one becomes 1. The threadgroup has to wait before it writes them.
template <typename T>
inline Reflection reflection(device const T* x, uint n, threadgroup float* partial, uint lid, uint threads, Lane at) {
  constexpr float least = numeric_limits<float>::min();
  float most = 0;
  for (uint j = lid; j < n; j += threads) {
    most = max(most, abs(x[j]));
  }
  most = group_max(most, partial, at);
  const float inverse = most >= least ? 1 / most : 0.0f;
  float rest = 0;
  for (uint j = lid + 1; j < n; j += threads) {
    const float y = x[j] * inverse;
    rest += y * y;
  }
  rest = group_sum(rest, partial, at);
  const float alpha = x[0] * inverse, length = sqrt(alpha * alpha + rest), beta = alpha > 0 ? -length : length;
  if (rest == 0) {
    return {x[0], 0.0f, 0.0f};
  }
  return {beta * most, (beta - alpha) / beta, inverse / (alpha - beta)};
}

// products[i] = tau (row i of a - u[i] y) . v for COUNT rows from `row` on and the columns from `first` on, a multiple of 32.
template <uint COUNT, typename T>
inline void multiply_rows(device const T* a, device const T* v, device const T* u, device T* products, float along,
                          float tau, uint row, uint first, uint pitch, uint lane) {
  float sums[COUNT] = {};
  device const T* rows = a + long(row) * pitch;
  for (uint base = first; base < pitch; base += WIDTH) {
    const float value = v[base + lane];
    for (uint i = 0; i < COUNT; i++) {
      sums[i] += rows[i * pitch + base + lane] * value;
    }
  }
  for (uint i = 0; i < COUNT; i++) {
    const float sum = simd_sum(sums[i]);
    if (lane == 0) {
      products[row + i] = tau * (sum - u[row + i] * along);
    }
  }
}

// One threadgroup a matrix. Row k of `lefts` is u of step k, from element k on; row k of `work` is v, from k + 1 on.
// scales is NaN for a matrix with NaN or infinity inside, which is taken as 0. `work`, `lefts` and `room`, which has
// 2 + simdgroups rows, have the pitch of pitch_of, with zeros in `work` beyond column n.
template <typename T>
[[kernel]] void bidiagonalise(
    device const T* a [[buffer(0)]],
    device T* work [[buffer(1)]],
    device T* lefts [[buffer(2)]],
    device T* diagonal [[buffer(3)]],
    device T* off [[buffer(4)]],
    device T* left_taus [[buffer(5)]],
    device T* right_taus [[buffer(6)]],
    device T* scales [[buffer(7)]],
    device T* room [[buffer(8)]],
    constant long& size [[buffer(9)]],
    uint matrix [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const Lane at = {lane, simdgroup, simdgroups};
  const uint n = size, pitch = pitch_of(n);
  const long begin = long(matrix) * n;
  a += begin * n;
  work += begin * pitch;
  lefts += begin * pitch;
  diagonal += begin;
  off += begin;
  left_taus += begin;
  right_taus += begin;
  room += long(matrix) * pitch * (2 + simdgroups);
  device T* x = room;
  device T* y = room + pitch;
  device T* parts = y + pitch;
  device T* own = parts + simdgroup * pitch;

  float largest = 0;
  for (long i = lid; i < long(n) * n; i += threads) {
    const float value = abs(a[i]);
    largest = is_number(value) ? max(largest, value) : INFINITY;
  }
  largest = group_max(largest, partial, at);
  const bool is_finite = is_number(largest);
  const float scale = is_finite ? scale_for(largest) : 0.0f;
  if (lid == 0) {
    scales[matrix] = is_finite ? scale : NAN;
  }
  for (uint r = simdgroup; r < n; r += simdgroups) {
    for (uint j = lane; j < pitch; j += WIDTH) {
      work[long(r) * pitch + j] = is_finite && j < n ? a[long(r) * n + j] * scale : 0.0f;
    }
  }
  for (uint j = lid; j < pitch; j += threads) {
    x[j] = 0;
    y[j] = 0;
  }
  threadgroup_barrier(mem_flags::mem_device);

  Update<T> waiting = {y, y, x, y};  // nothing
  for (uint k = 0; k < n; k++) {
    device T* u = lefts + long(k) * pitch;
    device T* v = work + long(k) * pitch;
    for (uint r = k + lid; r < n; r += threads) {
      u[r] = work[long(r) * pitch + k] - (waiting.u[r] * y[k] + x[r] * waiting.v[k]);
    }
    threadgroup_barrier(mem_flags::mem_device);
    const Reflection down = reflection(u + k, n - k, partial, lid, threads, at);
    threadgroup_barrier(mem_flags::mem_device);
    for (uint r = k + lid; r < n; r += threads) {
      u[r] = r == k ? 1.0f : u[r] * down.factor;
    }
    for (uint j = lane; j < pitch; j += WIDTH) {
      own[j] = 0;
    }
    if (lid == 0) {
      diagonal[k] = down.value;
      left_taus[k] = down.tau;
    }
    threadgroup_barrier(mem_flags::mem_device);
    // Columns before k + 1 are used no more.
    const uint first = k + 1 - (k + 1) % WIDTH;
    update_and_sum(work, waiting, u, own, {k, n, first, pitch, pitch}, at);
    threadgroup_barrier(mem_flags::mem_device);
    if (lid == 0) {
      y[k] = 0;
    }
    for (uint j = k + 1 + lid; j < n; j += threads) {
      float sum = 0;
      for (uint g = 0; g < simdgroups; g++) {
        sum += parts[g * pitch + j];
      }
      y[j] = sum * down.tau;
      v[j] -= sum * down.tau;
    }
    threadgroup_barrier(mem_flags::mem_device);
    if (k + 1 == n) {
      if (lid == 0) {
        off[k] = 0;
        right_taus[k] = 0;
      }
      break;
    }
    const Reflection across = reflection(v + k + 1, n - k - 1, partial, lid, threads, at);
    threadgroup_barrier(mem_flags::mem_device);
    float along = 0;
    for (uint j = k + 1 + lid; j < n; j += threads) {
      const float value = j == k + 1 ? 1.0f : v[j] * across.factor;
      v[j] = value;
      along += value * y[j];
    }
    for (uint j = first + lid; j <= k; j += threads) {
      v[j] = 0;
    }
    if (lid == 0) {
      off[k] = across.value;
      right_taus[k] = across.tau;
    }
    along = group_sum(along, partial, at);
    threadgroup_barrier(mem_flags::mem_device);
    for (uint r = k + 1 + simdgroup * ROWS; r < n; r += simdgroups * ROWS) {
      if (r + ROWS <= n) {
        multiply_rows<ROWS>(work, v, u, x, along, across.tau, r, first, pitch, lane);
      } else {
        for (uint i = r; i < n; i++) {
          multiply_rows<1>(work, v, u, x, along, across.tau, i, first, pitch, lane);
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_device);
    waiting = {u, y, x, v};
  }
}

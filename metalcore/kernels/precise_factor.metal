// Cholesky and QR factorisations with every number a pair of floats. A threadgroup has a matrix; the pairs are in device
// memory, rows are read along memory. Rows and columns are scaled by powers of two, so that their largest numbers are near 1.
#include "float_float.h"

constant bool is_upper [[function_constant(0)]];

constant constexpr uint TERMS = 32;

struct Place {
  uint lane;
  uint simdgroup;
  uint simdgroups;
};

inline void exchange() { threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup); }

inline FloatFloat pair_at(device const float* high, device const float* low, ulong at) { return {high[at], low[at]}; }

inline void store_pair(device float* high, device float* low, ulong at, FloatFloat x) {
  high[at] = x.high;
  low[at] = x.low;
}

inline FloatFloat scaled(FloatFloat x, int exponent) { return {ldexp(x.high, exponent), ldexp(x.low, exponent)}; }

inline int exponent_of(float x) {
  constexpr int most = numeric_limits<float>::max_exponent - 4;
  return x > 0.0f && isfinite(x) ? clamp(ilogb(x), -most, most) : 0;
}

// The exponent of the largest of numbers `begin` to `end`, found by each simdgroup for itself.
template <typename T>
inline int largest_exponent(device const T* a, uint begin, uint end, uint lane) {
  float largest = 0.0f;
  for (uint i = begin + lane; i < end; i += 32) {
    largest = max(largest, abs(float(a[i])));
  }
  return exponent_of(simd_max(largest));
}

// A = U^T U, row by row: U[i, j] = (A[i, j] - sum over k < i of U[k, i] U[k, j]) / U[i, i]. info is the order of the
// first minor that is not positive definite. Row and column j are scaled by the root of A[j, j], or nearly: so no number of
// a positive definite matrix is far above 1, and what is graded keeps its digits.
template <typename T>
[[kernel]] void precise_cholesky(
    device const T* a [[buffer(0)]],
    device T* high [[buffer(1)]],
    device T* low [[buffer(2)]],
    device int* info [[buffer(3)]],
    constant long& size [[buffer(4)]],
    uint group [[threadgroup_position_in_grid]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint n = uint(size);
  const ulong first = ulong(group) * n * n;
  device const T* from = a + first;
  device T* h = high + first;
  device T* l = low + first;
  int failed = 0;
  for (uint i = 0; i < n; i++) {
    const int own = exponent_of(from[i * n + i]) / 2;
    for (uint begin = i + 32 * simdgroup; begin < n; begin += 32 * simdgroups) {
      const uint j = begin + lane;
      if (j < n) {
        const int both = own + exponent_of(from[j * n + j]) / 2;
        float value = ldexp(float(from[is_upper ? i * n + j : j * n + i]), -both), error = 0.0f;
        for (uint k0 = 0; k0 < i; k0 += TERMS) {
          for (uint k = k0; k < min(i, k0 + TERMS); k++) {
            const FloatFloat p = {-h[k * n + i], -l[k * n + i]}, q = pair_at(h, l, k * n + j);
            const FloatFloat product = two_product(p.high, q.high), next = two_sum(value, product.high);
            value = next.high;
            error += next.low + fma(p.high, q.low, fma(p.low, q.high, product.low));
          }
          const FloatFloat sum = two_sum(value, error);
          value = sum.high;
          error = sum.low;
        }
        store_pair(h, l, i * n + j, {value, error});
      }
    }
    exchange();
    const FloatFloat pivot = pair_at(h, l, i * n + i);
    const FloatFloat root = sqrt(pivot);
    if (!(pivot.high > 0.0f) || !isfinite(pivot.high)) {
      failed = int(i) + 1;
      break;
    }
    exchange();
    for (uint begin = i + 32 * simdgroup; begin < n; begin += 32 * simdgroups) {
      const uint j = begin + lane;
      if (j < n) {
        store_pair(h, l, i * n + j, j == i ? root : pair_at(h, l, i * n + j) / root);
      }
    }
    exchange();
  }
  exchange();
  for (uint i = simdgroup; i < n; i += simdgroups) {
    for (uint j = lane; j < n; j += 32) {
      h[i * n + j] = j < i ? 0.0f : ldexp(h[i * n + j], exponent_of(from[j * n + j]) / 2);
    }
  }
  if (lane == 0 && simdgroup == 0) {
    info[group] = failed;
  }
}

// w of H = I - tau v v^T applied to a row x: the sum over v_i x_i, where v is 0 before k, 1 at k and as stored after.
inline FloatFloat along(device const float* vh, device const float* vl, device const float* xh, device const float* xl,
                        uint k, uint m, uint lane) {
  FloatFloat sum = {0.0f, 0.0f};
  for (uint i = (k & ~31u) + lane; i < m; i += 32) {
    const FloatFloat v = {i > k ? vh[i] : i == k ? 1.0f : 0.0f, i > k ? vl[i] : 0.0f};
    sum = sum + v * pair_at(xh, xl, i);
  }
  return simd_total(sum);
}

inline void reflect(device const float* vh, device const float* vl, device float* xh, device float* xl, FloatFloat tau,
                    uint k, uint m, uint lane) {
  const FloatFloat w = along(vh, vl, xh, xl, k, m, lane) * tau;
  for (uint i = (k & ~31u) + lane; i < m; i += 32) {
    const FloatFloat v = {i > k ? vh[i] : i == k ? 1.0f : 0.0f, i > k ? vl[i] : 0.0f};
    store_pair(xh, xl, i, pair_at(xh, xl, i) - v * w);
  }
}

// A = Q R by reflections, on the columns of A (`a` is A^T): column k keeps R above its diagonal and v below. A column is
// scaled as a whole, and what a reflection is made of again: a column of R and its reflection do not depend on scales.
template <typename T>
[[kernel]] void precise_qr(
    device const T* a [[buffer(0)]],
    device T* high [[buffer(1)]],
    device T* low [[buffer(2)]],
    device T* tau_high [[buffer(3)]],
    device T* tau_low [[buffer(4)]],
    device T* r [[buffer(5)]],
    constant long& rows [[buffer(6)]],
    constant long& columns [[buffer(7)]],
    constant long& r_rows [[buffer(8)]],
    uint group [[threadgroup_position_in_grid]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint m = uint(rows), n = uint(columns), steps = min(m, n);
  const ulong first = ulong(group) * m * n;
  device T* h = high + first;
  device T* l = low + first;
  for (uint j = simdgroup; j < n; j += simdgroups) {
    const int exponent = largest_exponent(a + first + j * m, 0, m, lane);
    for (uint i = lane; i < m; i += 32) {
      store_pair(h, l, j * m + i, {ldexp(float(a[first + j * m + i]), -exponent), 0.0f});
    }
  }
  for (uint k = 0; k < steps; k++) {
    exchange();
    device T* vh = h + k * m;
    device T* vl = l + k * m;
    const int exponent = largest_exponent(vh, k, m, lane);
    FloatFloat sum = {0.0f, 0.0f};
    for (uint i = (k & ~31u) + lane; i < m; i += 32) {
      const FloatFloat x = scaled({i > k ? vh[i] : 0.0f, i > k ? vl[i] : 0.0f}, -exponent);
      sum = sum + x * x;
    }
    sum = simd_total(sum);
    const FloatFloat alpha = scaled(pair_at(vh, vl, k), -exponent);
    const FloatFloat size = sqrt(alpha * alpha + sum);
    const bool is_flat = sum.high == 0.0f;  // nothing to reflect
    const FloatFloat beta = is_flat ? alpha : alpha.high >= 0.0f ? -size : size;
    const FloatFloat tau = is_flat ? from_float(0.0f) : (beta - alpha) / beta;
    const FloatFloat inverse = is_flat ? from_float(0.0f) : from_float(1.0f) / (alpha - beta);
    exchange();
    for (uint i = (k & ~31u) + lane + 32 * simdgroup; i < m; i += 32 * simdgroups) {
      if (i >= k) {
        const FloatFloat x = scaled(pair_at(vh, vl, i), -exponent);
        store_pair(vh, vl, i, i == k ? scaled(beta, exponent) : x * inverse);
      }
    }
    if (lane == 0 && simdgroup == 0) {
      store_pair(tau_high, tau_low, ulong(group) * steps + k, tau);
    }
    exchange();
    for (uint j = k + 1 + simdgroup; j < n; j += simdgroups) {
      reflect(vh, vl, h + j * m, l + j * m, tau, k, m, lane);
    }
  }
  exchange();
  const ulong begin = ulong(group) * ulong(r_rows) * n;
  for (uint j = simdgroup; j < n; j += simdgroups) {
    const int exponent = largest_exponent(a + first + j * m, 0, m, lane);
    for (uint i = lane; i < uint(r_rows); i += 32) {
      r[begin + i * n + j] = i <= j && i < m ? ldexp(h[j * m + i], exponent) : 0.0f;
    }
  }
}

// The first columns of Q, one to a simdgroup, as rows: Q e_c = H_0 ... H_last e_c.
template <typename T>
[[kernel]] void precise_qr_q(
    device const T* high [[buffer(0)]],
    device const T* low [[buffer(1)]],
    device const T* tau_high [[buffer(2)]],
    device const T* tau_low [[buffer(3)]],
    device T* q [[buffer(4)]],
    device T* q_low [[buffer(5)]],
    constant long& rows [[buffer(6)]],
    constant long& columns [[buffer(7)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint m = uint(rows), n = uint(columns), steps = min(m, n), c = group.x;
  const ulong first = ulong(group.y) * m * n, at = (ulong(group.y) * groups.x + c) * m;
  for (uint i = lane; i < m; i += 32) {
    store_pair(q + at, q_low + at, i, from_float(i == c ? 1.0f : 0.0f));
  }
  for (uint k = steps; k-- > 0;) {
    const FloatFloat tau = pair_at(tau_high, tau_low, ulong(group.y) * steps + k);
    reflect(high + first + k * m, low + first + k * m, q + at, q_low + at, tau, k, m, lane);
  }
}

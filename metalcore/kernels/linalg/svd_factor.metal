// The first and the last step of the singular value decomposition of linalg/svd_group.metal: a QR factorisation, whose R
// is turned there, and its Q applied to the vectors. M has `columns` columns of `length` elements, which are rows in
// memory: lanes run along memory.
#include "linalg/svd_group.h"

// M = Q R with pivots in rows and columns. Row places[k] of `x` becomes reflection k, from element k on; rows of M are
// swapped as it goes: k with pivots[k]. Row k of `r` becomes row k of R, with each element at its own column, to the
// scale r_scales[k]. `whole` is the factor that undoes the scaling of M; `moved` is set for the first round of turns.
template <typename T>
[[kernel]] void svd_factor(
    device const T* a [[buffer(0)]],
    device T* x [[buffer(1)]],
    device T* r [[buffer(2)]],
    device T* r_scales [[buffer(3)]],
    device T* factors [[buffer(4)]],
    device T* numbers [[buffer(5)]],
    device int* places [[buffer(6)]],
    device int* pivots [[buffer(7)]],
    device T* whole [[buffer(8)]],
    device int* moved [[buffer(9)]],
    constant long& columns [[buffer(10)]],
    constant long& length [[buffer(11)]],
    constant long& slots [[buffer(12)]],
    uint matrix [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]],
    uint groups [[simdgroups_per_threadgroup]],
    uint thread_index [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]]) {
  const uint n = columns, m = length, pitch = pitch_of(n);
  a += long(matrix) * n * m;
  x += long(matrix) * n * m;
  r += long(matrix) * n * pitch;
  r_scales += long(matrix) * n;
  factors += long(matrix) * n;
  places += long(matrix) * n;
  pivots += long(matrix) * n;
  device T* sizes = numbers + long(matrix) * 2 * n;  // of what is left of a column
  device T* scales = sizes + n;
  for (uint j = group; j < n; j += groups) {
    float largest = 0;
    bool is_finite = true;
    for (uint i = lane; i < m; i += 32) {
      const float size = fabs(a[long(j) * m + i]);
      is_finite = is_finite && size <= numeric_limits<float>::max();
      largest = max(largest, size);
    }
    largest = simd_all(is_finite) ? simd_max(largest) : INFINITY;
    if (lane == 0) {
      sizes[j] = largest;
    }
  }
  for (uint i = thread_index; i < uint(slots); i += threads) {
    moved[long(matrix) * slots + i] = 1;
  }
  threadgroup_barrier(mem_flags::mem_device);
  const float most = svd_largest(sizes, 0, n, lane);
  const bool is_finite = most <= numeric_limits<float>::max();
  const float power = is_finite ? svd_power(most) : 0.0f;
  if (thread_index == 0) {
    whole[matrix] = is_finite ? 1 / power : INFINITY;
  }
  threadgroup_barrier(mem_flags::mem_device);
  for (uint j = group; j < n; j += groups) {
    device T* column = x + long(j) * m;
    const float own = is_finite ? svd_power(sizes[j] * power) : 1.0f;
    float square = 0;
    for (uint i = lane; i < m; i += 32) {
      const float value = is_finite ? a[long(j) * m + i] * power * own : 0.0f;
      column[i] = value;
      square += value * value;
    }
    square = simd_sum(square);
    for (uint i = lane; i < pitch; i += 32) {
      r[long(j) * pitch + i] = 0;
    }
    simdgroup_barrier(mem_flags::mem_device);
    if (lane == 0) {
      places[j] = j;
      scales[j] = 1 / own;
      sizes[j] = sqrt(square) / own;
    }
  }
  threadgroup_barrier(mem_flags::mem_device);
  for (uint k = 0; k < n; k++) {
    const uint chosen = svd_place(sizes, k, n, lane);
    const int place = places[chosen];
    const float scale = scales[chosen];
    device T* v = x + long(place) * m;
    const uint row = svd_place(v, k, m, lane);
    const float head = v[row], first = v[k];
    float tail = 0, wide = 0;
    for (uint i = k + lane; i < m; i += 32) {
      const float value = i == row ? 0.0f : v[i];
      tail += value * value;
      wide = max(wide, fabs(value));
    }
    tail = simd_sum(tail);
    wide = simd_max(wide);
    const float root = sqrt(head * head + tail);
    // Elements whose squares vanish beside the head's may be large in their rows: they are reflected too.
    const float norm = wide == 0 ? head : head < 0 ? root : -root;
    const float factor = wide == 0 ? 0.0f : 1 / (norm * (norm - head));
    threadgroup_barrier(mem_flags::mem_device);
    if (thread_index == 0) {
      places[chosen] = places[k];
      scales[chosen] = scales[k];
      sizes[chosen] = sizes[k];
      places[k] = place;
      v[row] = first;
      v[k] = head - norm;
      r[long(k) * pitch + place] = norm;
      r_scales[k] = scale;
      factors[k] = factor;
      pivots[k] = row;
    }
    threadgroup_barrier(mem_flags::mem_device);
    for (uint j = k + 1 + group; j < n; j += groups) {
      device T* column = x + long(places[j]) * m;
      const float above = column[row], below = column[k];
      simdgroup_barrier(mem_flags::mem_device);
      if (lane == 0) {
        column[row] = below;
        column[k] = above;
      }
      simdgroup_barrier(mem_flags::mem_device);
      const float dot = factor * svd_dot(v, column, k, m, lane);
      float rest = svd_subtract(column, v, dot, k, m, lane);
      simdgroup_barrier(mem_flags::mem_device);
      float own = scales[j];
      if (lane == 0) {
        r[long(k) * pitch + places[j]] = (above - v[k] * dot) * (own / scale);
      }
      if (svd_is_odd(rest)) {
        rest = svd_rescale(column, own, k + 1, m, lane);
      }
      simdgroup_barrier(mem_flags::mem_device);
      if (lane == 0) {
        scales[j] = own;
        sizes[j] = own * sqrt(rest);
      }
    }
    threadgroup_barrier(mem_flags::mem_device);
  }
}

// What the vectors on the left are made of.
template <typename T>
struct Lefts {
  device const T* turns;
  device const T* x;
  device const T* factors;
  device const int* places;
  device const int* pivots;
  device const int* order;
  device T* left;
  uint n;
  uint m;
};

// W vectors from number `begin` on: Q times a product of turns, or from n on times an axis. Each reflection is read once
// for all of them.
template <uint W, typename T>
inline void svd_reflect(Lefts<T> given, uint begin, uint lane) {
  const uint n = given.n, m = given.m;
  device T* left = given.left;
  long u[W];
  for (uint w = 0; w < W; w++) {
    const uint number = begin + w;
    u[w] = long(number < n ? uint(given.order[number]) : number) * m;
    device const T* turned = given.turns + long(number) * pitch_of(n);
    const float inverse = number < n ? rsqrt(svd_dot(turned, turned, 0, pitch_of(n), lane)) : 1.0f;  // or nearly so
    for (uint i = lane; i < m; i += WIDTH) {
      const float axis = i == number ? 1.0f : 0.0f;
      left[u[w] + i] = number >= n ? axis : i < n ? turned[i] * inverse : 0.0f;
    }
  }
  simdgroup_barrier(mem_flags::mem_device);
  for (uint k = n; k-- > 0;) {
    device const T* v = given.x + long(given.places[k]) * m;
    const uint row = given.pivots[k];
    float dots[W];
    for (uint w = 0; w < W; w++) {
      dots[w] = 0;
    }
    uint whole = k;  // elements up to here are taken 32 at a time
    for (; whole + WIDTH <= m; whole += WIDTH) {
      const float value = v[whole + lane];
      for (uint w = 0; w < W; w++) {
        dots[w] += value * left[u[w] + whole + lane];
      }
    }
    const bool is_rest = whole + lane < m;
    if (is_rest) {
      for (uint w = 0; w < W; w++) {
        dots[w] += v[whole + lane] * left[u[w] + whole + lane];
      }
    }
    for (uint w = 0; w < W; w++) {
      dots[w] = given.factors[k] * simd_sum(dots[w]);
    }
    for (uint i = k; i < whole; i += WIDTH) {
      const float value = v[i + lane];
      for (uint w = 0; w < W; w++) {
        left[u[w] + i + lane] -= value * dots[w];
      }
    }
    if (is_rest) {
      for (uint w = 0; w < W; w++) {
        left[u[w] + whole + lane] -= v[whole + lane] * dots[w];
      }
    }
    simdgroup_barrier(mem_flags::mem_device);
    for (uint w = 0; w < W; w++) {
      const float first = left[u[w] + k], second = left[u[w] + row];
      simdgroup_barrier(mem_flags::mem_device);
      if (lane == 0) {
        left[u[w] + k] = second;
        left[u[w] + row] = first;
      }
    }
    simdgroup_barrier(mem_flags::mem_device);
  }
}

constant constexpr uint SVD_LEFTS = 4;  // vectors that a simdgroup has

// Vectors of the side of `length` elements.
template <typename T>
[[kernel]] void svd_left(
    device const T* turns [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device const T* factors [[buffer(2)]],
    device const int* places [[buffer(3)]],
    device const int* pivots [[buffer(4)]],
    device const int* order [[buffer(5)]],
    device T* left [[buffer(6)]],
    constant long& columns [[buffer(7)]],
    constant long& length [[buffer(8)]],
    constant long& lefts [[buffer(9)]],
    uint2 at [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]],
    uint groups [[simdgroups_per_threadgroup]]) {
  const uint n = columns, m = length, all = lefts;
  const long first = long(at.y) * n;
  const uint begin = (at.x * groups + group) * SVD_LEFTS;
  const Lefts<T> given = {turns + first * pitch_of(n), x + first * m, factors + first, places + first, pivots + first,
                          order + first, left + long(at.y) * all * m, n, m};
  if (begin + SVD_LEFTS <= all) {
    svd_reflect<SVD_LEFTS>(given, begin, lane);
  } else {
    for (uint number = begin; number < all; number++) {
      svd_reflect<1>(given, number, lane);
    }
  }
}

// The p-norm (sum |x|^p)^(1/p) along a dimension, and its gradient. Nothing overflows or underflows on the way: sums of
// powers are taken of x over its largest (or, for p < 0, least) element; a plain sum of squares is tried first.
// x is seen as (outer, width, inner): `rows` kernels reduce along memory (inner = 1), in `columns` kernels a thread has a
// column. A long width is cut into blocks of `each`; norms of norms of blocks are norms.
#include "group.h"
#include "linalg/givens.h"

// Which norm, the same for a whole launch: p = 0, 1, 2, inf, -inf or another number.
constant constexpr int COUNT = 0, SUM = 1, SQUARES = 2, LARGEST = 3, LEAST = 4, POWER = 5;
constant constexpr float EXACT_MOST = 16;
constant constexpr uint RUN = 64;  // elements of a thread that are added up before they are added to the others

inline float term(int kind, float x, float scale, float p) {
  const float y = abs(x);
  if (kind == POWER) {
    return pow(y / scale, p);
  }
  return kind == COUNT ? float(x != 0) : kind == SUM ? y : (x * scale) * (x * scale);
}

// What is put over the sum of squares: nothing, where it is a normal number and no small one was lost.
inline bool is_safe(float sum) {
  return sum >= numeric_limits<float>::min() / (numeric_limits<float>::epsilon() * numeric_limits<float>::epsilon()) &&
         sum <= numeric_limits<float>::max();
}

// The norm from the sum of terms, taken with this scale of x, whose largest (p > 0) or least element is `edge`.
inline float finish(int kind, float sum, float scale, float edge, float p) {
  if (kind == SQUARES) {
    return sum == sum && edge > numeric_limits<float>::max() ? INFINITY : sqrt(sum) / scale;
  }
  if (kind == POWER) {
    float root = pow(sum, 1 / p);
    const float again = pow(root, p);  // one step of Newton: what pow has lost counts p times in the gradient
    const bool is_usual = abs(p) <= EXACT_MOST && again > 0 && is_number(again);
    root = scale * (is_usual ? root + root * (sum / again - 1) / p : root);
    return sum != sum ? sum : edge == 0 || edge > numeric_limits<float>::max() ? edge : root;
  }
  return sum;
}

// A scale that makes the terms of order 1. Powers of two add no error; for large p the edge itself has to become 1.
inline float term_scale(int kind, float edge, float p) {
  if (!is_number(edge) || edge == 0) {
    return 1;
  }
  return kind == SQUARES ? scale_for(edge) : abs(p) <= EXACT_MOST ? 1 / scale_for(edge) : edge;
}

inline bool takes_least(int kind, float p) {
  return kind == LEAST || (kind == POWER && p < 0);
}

// One threadgroup a block of a row.
template <typename T, typename R>
[[kernel]] void vector_norm_rows(
    device const T* x [[buffer(0)]],
    device R* norms [[buffer(1)]],
    constant long& width [[buffer(2)]],
    constant long& each [[buffer(3)]],
    constant float& p [[buffer(4)]],
    constant long& which [[buffer(5)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint2 groups [[threadgroups_per_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint2 group_size [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
  const uint threads = group_size.x;
  threadgroup float partial[32];
  const Lane at = {lane, simdgroup, simdgroups};
  const int kind = which;
  const uint count = min(each, width - long(group.y) * each);
  x += long(group.x) * width + long(group.y) * each;

  float edge = takes_least(kind, p) ? INFINITY : 0.0f, sum = 0, scale = 1;
  bool is_ready = kind == COUNT || kind == SUM;
  if (kind == SQUARES) {
    for (uint begin = 0; begin < count; begin += RUN * threads) {
      float some = 0;
      for (uint i = begin + lid; i < min(begin + RUN * threads, count); i += threads) {
        const float y = float(x[i]);
        some += y * y;
      }
      sum += some;
    }
    sum = group_sum(sum, partial, at);
    is_ready = is_safe(sum);
  }
  if (!is_ready) {
    float missing = 0;  // NaN: max and min pass it over
    for (uint i = lid; i < count; i += threads) {
      const float y = abs(float(x[i]));
      edge = takes_least(kind, p) ? min(edge, y) : max(edge, y);
      missing = y == y ? missing : y;
    }
    edge = takes_least(kind, p) ? -group_max(-edge, partial, at) : group_max(edge, partial, at);
    missing = group_sum(missing, partial, at);
    edge = missing == missing ? edge : missing;
    scale = term_scale(kind, edge, p);
  }
  if (kind == LARGEST || kind == LEAST) {
    sum = edge;
  } else if (kind != SQUARES || !is_ready) {
    sum = 0;
    for (uint begin = 0; begin < count; begin += RUN * threads) {
      float some = 0;
      for (uint i = begin + lid; i < min(begin + RUN * threads, count); i += threads) {
        some += term(kind, float(x[i]), scale, p);
      }
      sum += some;
    }
    sum = group_sum(sum, partial, at);
  }
  if (lid == 0) {
    norms[long(group.x) * groups.y + group.y] = R(finish(kind, sum, scale, edge, p));
  }
}

// One thread a block of a column.
template <typename T, typename R>
[[kernel]] void vector_norm_columns(
    device const T* x [[buffer(0)]],
    device R* norms [[buffer(1)]],
    constant long& width [[buffer(2)]],
    constant long& each [[buffer(3)]],
    constant long& inner [[buffer(4)]],
    constant float& p [[buffer(5)]],
    constant long& which [[buffer(6)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 groups [[threadgroups_per_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint3 threads [[threads_per_threadgroup]]) {
  const int kind = which;
  const uint column = group.x * threads.x + lid, step = inner;
  if (column >= step) {
    return;
  }
  const uint count = min(each, width - long(group.y) * each);
  x += (long(group.z) * width + long(group.y) * each) * step + column;

  float edge = takes_least(kind, p) ? INFINITY : 0.0f, sum = 0, scale = 1;
  bool is_ready = kind == COUNT || kind == SUM;
  if (kind == SQUARES) {
    for (uint begin = 0; begin < count; begin += RUN) {
      float some = 0;
      for (uint i = begin; i < min(begin + RUN, count); i++) {
        const float y = float(x[long(i) * step]);
        some += y * y;
      }
      sum += some;
    }
    is_ready = simd_all(is_safe(sum));
  }
  if (!is_ready) {
    float missing = 0;
    for (uint i = 0; i < count; i++) {
      const float y = abs(float(x[long(i) * step]));
      edge = takes_least(kind, p) ? min(edge, y) : max(edge, y);
      missing = y == y ? missing : y;
    }
    edge = missing == missing ? edge : missing;
    scale = term_scale(kind, edge, p);
  }
  if (kind == LARGEST || kind == LEAST) {
    sum = edge;
  } else if (kind != SQUARES || !is_ready) {
    sum = 0;
    for (uint begin = 0; begin < count; begin += RUN) {
      float some = 0;
      for (uint i = begin; i < min(begin + RUN, count); i++) {
        some += term(kind, float(x[long(i) * step]), scale, p);
      }
      sum += some;
    }
  }
  norms[(long(group.z) * groups.y + group.y) * step + column] = R(finish(kind, sum, scale, edge, p));
}

// sign(x) (|x| / norm)^(p - 1), the derivative of the norm by an element; 0 at x = 0, as torch has it. Where it is the
// largest or least element, all that are share it.
inline float slope(int kind, float x, float norm, float share, float p) {
  const float sign = x > 0 ? 1.0f : x < 0 ? -1.0f : x;
  if (kind == COUNT || norm == 0) {
    return 0;
  }
  if (kind == SUM) {
    return sign;
  }
  if (kind == SQUARES) {
    return x / norm;
  }
  if (kind == LARGEST || kind == LEAST) {
    return abs(x) == norm ? sign * share : 0.0f;
  }
  const float y = abs(x) / norm;
  const float lost = fma(-y, norm, abs(x)) / abs(x);  // by rounding y
  const float power = sign * pow(y, p - 1);
  return x == 0 ? 0.0f : is_number(abs(lost)) ? power + power * ((p - 1) * lost) : power;
}

template <typename T>
[[kernel]] void vector_norm_rows_backward(
    device const T* x [[buffer(0)]],
    device const T* norms [[buffer(1)]],
    device const T* grads [[buffer(2)]],
    device T* dx [[buffer(3)]],
    constant long& width [[buffer(4)]],
    constant float& p [[buffer(5)]],
    constant long& which [[buffer(6)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const Lane at = {lane, simdgroup, simdgroups};
  const int kind = which;
  x += long(row) * width;
  dx += long(row) * width;
  const uint count = width;
  const float norm = float(norms[row]), grad = float(grads[row]);
  float share = 0;
  if (kind == LARGEST || kind == LEAST) {
    for (uint i = lid; i < count; i += threads) {
      share += abs(float(x[i])) == norm ? 1.0f : 0.0f;
    }
    share = 1 / group_sum(share, partial, at);
  }
  for (uint i = lid; i < count; i += threads) {
    dx[i] = T(grad * slope(kind, float(x[i]), norm, share, p));
  }
}

template <typename T>
[[kernel]] void vector_norm_columns_backward(
    device const T* x [[buffer(0)]],
    device const T* norms [[buffer(1)]],
    device const T* grads [[buffer(2)]],
    device T* dx [[buffer(3)]],
    constant long& width [[buffer(4)]],
    constant long& inner [[buffer(5)]],
    constant float& p [[buffer(6)]],
    constant long& which [[buffer(7)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint2 threads [[threads_per_threadgroup]]) {
  const int kind = which;
  const uint column = group.x * threads.x + lid, step = inner, count = width;
  if (column >= step) {
    return;
  }
  const long begin = long(group.y) * width * step + column;
  const float norm = float(norms[long(group.y) * step + column]), grad = float(grads[long(group.y) * step + column]);
  float share = 0;
  if (kind == LARGEST || kind == LEAST) {
    for (uint i = 0; i < count; i++) {
      share += abs(float(x[begin + long(i) * step])) == norm ? 1.0f : 0.0f;
    }
    share = 1 / share;
  }
  for (uint i = 0; i < count; i++) {
    dx[begin + long(i) * step] = T(grad * slope(kind, float(x[begin + long(i) * step]), norm, share, p));
  }
}

// What the normalisations share.
#pragma once
#include "exact_sum.h"
#include "wide.h"

// One row, taken by all threads of a threadgroup in steps of V elements.
struct Row {
  uint lid;         // thread_position_in_threadgroup
  uint group_size;  // threads_per_threadgroup
  uint steps;       // width / V
  float width;
};

// The value that memory of type T holds after a store.
template <typename T, uint V>
inline wide<float, V> rounded(wide<float, V> value) {
  return wide<float, V>(wide<T, V>(value));
}

// The rows that a norm reads: those of x, or of x + residual, which are stored in `sum` in the type of memory as they
// are taken. A thread reads again only what it took itself.
template <typename T, uint V>
struct Source {
  using F = wide<float, V>;
  device const T* x;
  device const T* residual;
  device T* sum;
  bool adds;

  F peek(uint i) const {
    return adds ? rounded<T, V>(load<V>(x, i) + load<V>(residual, i)) : load<V>(x, i);
  }
  F take(uint i) const {
    if (!adds) {
      return load<V>(x, i);
    }
    const wide<T, V> v = wide<T, V>(load<V>(x, i) + load<V>(residual, i));
    ((device in_memory<T, V>*)sum)[i] = in_memory<T, V>(v);
    return F(v);
  }
  F again(uint i) const { return load<V>(adds ? (device const T*)sum : x, i); }

  Source<T, 1> single() const { return {x, residual, sum, adds}; }

  Source moved(long by) const { return {x + by, adds ? residual + by : residual, adds ? sum + by : sum, adds}; }
};

// Rows of so few float32 that each thread of one simdgroup has an element: there torch's error may happen to be near
// nothing, and what sums round off is kept.
template <typename T>
inline bool is_short(Lane at, Row row) {
  return sizeof(T) == 4 && row.width <= 32 && at.groups == 1;
}

// How many rows a threadgroup takes at once: they read a weight, and read and write the share of its gradient, once.
// With longer vectors the registers are taken already.
template <uint V>
struct AtOnce {
  enum : uint { rows = V <= 2 ? 4 : 1 };
};

// So many elements that the caches of a CPU do not hold them. In half precision arithmetic takes longer than memory.
template <typename T>
inline bool is_large(long rows, long width) {
  return sizeof(T) == 4 && rows * width >= (1 << 22);
}

// A number with about twice the digits: value + rest.
template <typename F>
struct Fine {
  F value;
  F rest;
};

inline Fine<float> fine(ExactSum sum) {
  const float value = rounded(sum);
  const float rest = (sum.value - value) + sum.error;
  return {value, isfinite(rest) ? rest : 0.0f};
}

template <typename F>
inline Fine<F> difference(F a, F b) {
  const F value = a - b;
  const F part = value - a;
  return {value, (a - (value - part)) - (b + part)};
}

// Adds up the parts of a weight's gradient of rows taken at once; where it is to be exact together with what is rounded
// off, so that the error is that of one rounding.
template <uint V>
struct Share {
  using F = wide<float, V>;
  F sum;
  F lost;
  bool is_exact;

  void add(F part) {
    if (is_exact) {
      const F next = sum + part;
      const F added = next - sum;
      lost += (sum - (next - added)) + (part - added);
      sum = next;
    } else {
      sum += part;
    }
  }
  // g r x, where r and x have a second part each that counts where it is to be exact.
  void add(F g, Fine<F> r, Fine<F> x) {
    const F scaled = g * r.value;
    if (is_exact) {
      const F part = scaled * x.value;
      const F rest = fma(g, r.value, -scaled) + g * r.rest;
      lost += fma(rest, x.value, fma(scaled, x.value, -part)) + scaled * x.rest;
      add(part);
    } else {
      sum = fma(scaled, x.value, sum);
    }
  }
  F result() { return is_exact ? sum + lost : sum; }
};

// 1 - s r^2
inline float root_error(float s, float r) {
  const float high = s * r;
  return fma(-high, r, 1.0f) - fma(s, r, -high) * r;
}

// 1 / sqrt(s), correctly rounded but for rare ties; metal::rsqrt is less exact.
inline float inverse_root(float s) {
  const float r = 1.0f / sqrt(s);
  const float better = fma(0.5f * root_error(s, r), r, r);
  return isfinite(better) ? better : r;
}

// 1 / sqrt(s) with what rounding it loses.
inline Fine<float> fine_inverse_root(float s) {
  const float r = inverse_root(s);
  const float rest = 0.5f * root_error(s, r) * r;
  return {r, isfinite(rest) ? rest : 0.0f};
}

// (a - b c) / d + e with few roundings, for a >= b c >= 0 and e >= 0.
inline float variance(Fine<float> a, float b, float c, float d, float e) {
  const float product = b * c;
  const float high = a.value - product;
  const float low = (((a.value - high) - product) - fma(b, c, -product)) + a.rest;
  const float q = high / d;
  const float rest = (fma(-q, d, high) + low) * (1.0f / d);
  const float s = q + e;
  const float lost = q > e ? (q - s) + e : (e - s) + q;
  const float better = s + (lost + rest);
  return isfinite(better) ? better : s;
}

template <uint V>
inline void clear(device float* to, Row row) {
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    store<V>(to, i, wide<float, V>(0.0f));
  }
}

// `count` rows of a result `to`, at most R. Their sums do not wait for one another, and a row is still near when it is
// read again. in_turn: they are written one after the other, which is best where they go past the cache.
template <uint R, uint V, typename T, typename Result, typename S>
inline void norm_rows(Source<T, V> from, Result to, long count, bool in_turn, threadgroup S* kept,
                      threadgroup float* partial, Lane at, Row row) {
  if (R == 1) {
    const S one = to.sums(from, partial, at, row);
    to.template write<1>(&one, from, row);
    return;
  }
  for (long k = 0; k < count; k++) {
    const S one = to.sums(from.moved(k * to.width), partial, at, row);
    if (row.lid == 0) {
      kept[k] = one;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (count == R && !in_turn) {
    S all[R];
    _Pragma("clang loop unroll(full)")
    for (uint k = 0; k < R; k++) {
      all[k] = kept[k];
    }
    to.template write<R>(all, from, row);
    return;
  }
  _Pragma("clang loop unroll(disable)")
  for (long k = 0; k < count; k++) {
    const S one = kept[k];
    to.moved(k).template write<1>(&one, from.moved(k * to.width), row);
  }
}

// Sums over R rows of a gradient that follow one another, for all threads.
template <uint R, uint V, typename Gradient, typename S>
inline void gradient_sums(Gradient of, thread S* sums, threadgroup S* kept, threadgroup float* partial, Lane at,
                          Row row) {
  if (R == 1) {
    sums[0] = of.template sums<V>(partial, at, row);
    return;
  }
  _Pragma("clang loop unroll(disable)")
  for (uint k = 0; k < R; k++) {
    const S one = of.moved(k).template sums<V>(partial, at, row);
    if (row.lid == 0) {
      kept[k] = one;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  _Pragma("clang loop unroll(full)")
  for (uint k = 0; k < R; k++) {
    sums[k] = kept[k];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);  // the next rows write there
}

// The rows of one block.
template <uint V, typename Gradient, typename S>
inline void norm_gradients(Gradient of, long first, long last, threadgroup S* kept, threadgroup float* partial, Lane at,
                           Row row) {
  of.template clear_shares<V>(row);
  for (; first + AtOnce<V>::rows <= last; first += AtOnce<V>::rows) {
    of.moved(first).template write<AtOnce<V>::rows, V>(kept, partial, at, row);
  }
  for (; AtOnce<V>::rows > 1 && first < last; first++) {
    of.moved(first).template write<1, V>(kept, partial, at, row);
  }
}

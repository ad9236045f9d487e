// What the normalisations share: a row's place in its threadgroup, and the start of a share of a weight's gradient.
#pragma once
#include "group.h"
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

template <uint V>
inline void clear(device float* to, Row row) {
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    store<V>(to, i, wide<float, V>(0.0f));
  }
}

// Mean of x^2 over the row.
template <uint V, typename T>
inline float mean_square(device const T* x, threadgroup float* partial, Lane at, Row row) {
  wide<float, V> squares = wide<float, V>(0.0f);
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    const wide<float, V> v = load<V>(x, i);
    squares = fma(v, v, squares);
  }
  return group_sum(total(squares), partial, at) / row.width;
}

// h = x + residual in the type of memory: each thread reads back only what it wrote itself.
template <uint V, typename T>
inline void add_rows(device const T* x, device const T* residual, device T* h, Row row) {
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    store<V>(h, i, load<V>(x, i) + load<V>(residual, i));
  }
}

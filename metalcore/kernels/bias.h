// An activation of x + bias, the bias added to every row.
#pragma once
#include "elementwise.h"

constant bool sums_bias [[function_constant(1)]];

template <typename Activation, typename T>
struct BiasForward {
  device const T* x;
  device const T* bias;
  device T* y;
  template <uint V>
  void step(uint i) {
    store<V>(y, i, Activation::value(load<V>(x, i) + load<V>(bias, i)));
  }
};

template <typename T>
struct BiasRow {
  device const T* g;
  device const T* x;
  device const T* bias;
  device T* dx;
  device float* shares;
};

// One row: its gradient, and what it adds to that of the bias.
template <typename Activation, uint V, typename T>
inline void bias_backward(BiasRow<T> at, bool is_first, uint width, uint lid, uint group_size) {
  for (uint i = lid; i < width / V; i += group_size) {
    const wide<float, V> slope = Activation::slope(load<V>(at.x, i) + load<V>(at.bias, i));
    const wide<float, V> d = slope * load<V>(at.g, i);
    store<V>(at.dx, i, d);
    if (sums_bias) {
      store<V>(at.shares, i, is_first ? d : load<V>(at.shares, i) + d);
    }
  }
}

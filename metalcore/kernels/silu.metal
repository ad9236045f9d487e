// y = x / (1 + e^-x),  dx = g s (1 + x (1 - s)) with s = 1 / (1 + e^-x)                     (arXiv:1702.03118)
#include "activation.h"
#include "elementwise.h"

template <typename T>
struct Forward {
  device const T* x;
  device T* y;
  template <uint V>
  void step(uint i) {
    store<V>(y, i, silu<T>(load<V>(x, i)));
  }
};

template <typename T>
struct Backward {
  device const T* g;
  device const T* x;
  device T* dx;
  template <uint V>
  void step(uint i) {
    const wide<float, V> v = load<V>(x, i);
    store<V>(dx, i, silu_slope(v, sigmoid<T>(v)) * load<V>(g, i));
  }
};

template <typename T, uint V>
[[kernel]] void silu_forward(
    device const T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    constant long& count [[buffer(2)]],
    uint3 position [[thread_position_in_grid]]) {
  const Part at = part(position, count);
  sweep<V>(Forward<T>{x + at.first, y + at.first}, position.x, at.count);
}

template <typename T, uint V>
[[kernel]] void silu_backward(
    device const T* g [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device T* dx [[buffer(2)]],
    constant long& count [[buffer(3)]],
    uint3 position [[thread_position_in_grid]]) {
  const Part at = part(position, count);
  sweep<V>(Backward<T>{g + at.first, x + at.first, dx + at.first}, position.x, at.count);
}

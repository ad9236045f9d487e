// y = cap tanh(x / cap),  dx = g (1 - tanh(x / cap)^2): large values bend towards +-cap          (arXiv:2408.00118)
#include "elementwise.h"

// For a result of type T: 16 bits do not show the difference of the faster one.
template <typename T, typename F>
inline F tanh_for(F x) {
  return sizeof(T) > 2 ? tanh(x) : fast::tanh(x);
}

template <typename T>
struct Forward {
  device const T* x;
  device T* y;
  float cap;
  template <uint V>
  void step(uint i) {
    store<V>(y, i, cap * tanh_for<T>(load<V>(x, i) / cap));
  }
};

template <typename T>
struct Backward {
  device const T* g;
  device const T* x;
  device T* dx;
  float cap;
  template <uint V>
  void step(uint i) {
    const wide<float, V> t = tanh_for<T>(load<V>(x, i) / cap);
    store<V>(dx, i, fma(-t, t, wide<float, V>(1.0f)) * load<V>(g, i));
  }
};

template <typename T, uint V>
[[kernel]] void softcap_forward(
    device const T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    constant long& count [[buffer(2)]],
    constant float& cap [[buffer(3)]],
    uint3 position [[thread_position_in_grid]]) {
  const Part at = part(position, count);
  sweep<V>(Forward<T>{x + at.first, y + at.first, cap}, position.x, at.count);
}

template <typename T, uint V>
[[kernel]] void softcap_backward(
    device const T* g [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device T* dx [[buffer(2)]],
    constant long& count [[buffer(3)]],
    constant float& cap [[buffer(4)]],
    uint3 position [[thread_position_in_grid]]) {
  const Part at = part(position, count);
  sweep<V>(Backward<T>{g + at.first, x + at.first, dx + at.first, cap}, position.x, at.count);
}

// y = silu(gate) up,  dgate = g up silu'(gate),  dup = g silu(gate)                         (arXiv:2002.05202)
#include "activation.h"
#include "elementwise.h"

template <typename T>
struct Forward {
  device const T* gate;
  device const T* up;
  device T* y;
  template <uint V>
  void step(uint i) {
    store<V>(y, i, silu<T>(load<V>(gate, i)) * load<V>(up, i));
  }
};

template <typename T>
struct Backward {
  device const T* g;
  device const T* gate;
  device const T* up;
  device T* dgate;
  device T* dup;
  template <uint V>
  void step(uint i) {
    const wide<float, V> x = load<V>(gate, i);
    const wide<float, V> s = sigmoid<T>(x);
    const wide<float, V> gi = load<V>(g, i);
    store<V>(dgate, i, gi * load<V>(up, i) * silu_slope(x, s));
    store<V>(dup, i, gi * (x * s));
  }
};

template <typename T, uint V>
[[kernel]] void swiglu_forward(
    device const T* gate [[buffer(0)]],
    device const T* up [[buffer(1)]],
    device T* y [[buffer(2)]],
    constant long& count [[buffer(3)]],
    uint3 position [[thread_position_in_grid]]) {
  const Part at = part(position, count);
  sweep<V>(Forward<T>{gate + at.first, up + at.first, y + at.first}, position.x, at.count);
}

template <typename T, uint V>
[[kernel]] void swiglu_backward(
    device const T* g [[buffer(0)]],
    device const T* gate [[buffer(1)]],
    device const T* up [[buffer(2)]],
    device T* dgate [[buffer(3)]],
    device T* dup [[buffer(4)]],
    constant long& count [[buffer(5)]],
    uint3 position [[thread_position_in_grid]]) {
  const Part at = part(position, count);
  const Backward<T> body = {g + at.first, gate + at.first, up + at.first, dgate + at.first, dup + at.first};
  sweep<V>(body, position.x, at.count);
}

// y = silu(x + bias),  dx = g silu'(x + bias),  dbias = sum over rows of dx
#include "activation.h"
#include "bias.h"

template <typename T>
struct Activation {
  template <typename F>
  static F value(F x) {
    return silu<T>(x);
  }
  template <typename F>
  static F slope(F x) {
    return silu_slope(x, sigmoid<T>(x));
  }
};

template <typename T, uint V>
[[kernel]] void bias_silu_forward(
    device const T* x [[buffer(0)]],
    device const T* bias [[buffer(1)]],
    device T* y [[buffer(2)]],
    constant long& width [[buffer(3)]],
    uint3 position [[thread_position_in_grid]]) {
  const long row = position.y * width;
  sweep<V>(BiasForward<Activation<T>, T>{x + row, bias, y + row}, position.x, uint(width));
}

template <typename T, uint V>
[[kernel]] void bias_silu_backward(
    device const T* g [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device const T* bias [[buffer(2)]],
    device T* dx [[buffer(3)]],
    device float* shares [[buffer(4)]],
    constant long& rows [[buffer(5)]],
    constant long& width [[buffer(6)]],
    constant long& rows_each [[buffer(7)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  const long first = block * rows_each;
  shares += block * width;
  for (long row = first; row < min(first + rows_each, rows); row++) {
    const BiasRow<T> at = {g + row * width, x + row * width, bias, dx + row * width, shares};
    bias_backward<Activation<T>, V>(at, row == first, uint(width), lid, group_size);
  }
}

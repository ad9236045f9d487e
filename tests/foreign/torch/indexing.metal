// An operation registered as PyTorch registers its own.
#include <metal_stdlib>

#include <c10/metal/indexing.h>
#include <c10/metal/utils.h>

struct softsign_functor {
  template <typename T>
  inline T operator()(const T x) {
    return static_cast<T>(float(x) / (1.0f + ::metal::abs(float(x))));
  }
};

struct scaled_sum_functor {
  template <typename T>
  inline T operator()(const T a, const T b) {
    return static_cast<T>(2 * a + b);
  }
};

REGISTER_UNARY_OP(softsign, float, float);
REGISTER_UNARY_OP(softsign, half, half);
REGISTER_UNARY_OP(softsign, bfloat, bfloat);
REGISTER_BINARY_OP(scaled_sum, float, float);
REGISTER_BINARY_OP(scaled_sum, int, int);

kernel void whole_numbers(
    const device int* a, const device int* b, device int* quotient, device int* rest,
    uint i [[thread_position_in_grid]]) {
  quotient[i] = c10::metal::floor_divide(a[i], b[i]);
  rest[i] = c10::metal::remainder(a[i], b[i]);
}

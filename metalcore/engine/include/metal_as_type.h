// as_type<T>(x): the bits of x as a T of the same size.
#pragma once

#include "metal_packed.h"

template <typename To, typename From>
constexpr __attribute__((always_inline, nodebug)) To as_type(From v) {
#ifdef METALCORE_DOUBLE
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of the same size; with METALCORE_DOUBLE a float has 8 bytes");
#else
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of the same size");
#endif
  if constexpr (__is_trivially_copyable(To) && __is_trivially_copyable(From)) {
    return __builtin_bit_cast(To, v);
  } else if constexpr (metal::__mc_shape<To>::dim == metal::__mc_shape<From>::dim) {
    typedef typename metal::__mc_shape<To>::element E;
    constexpr int n = metal::__mc_shape<To>::dim;
    if constexpr (n == 2)
      return To(__builtin_bit_cast(E, v.x), __builtin_bit_cast(E, v.y));
    else if constexpr (n == 3)
      return To(__builtin_bit_cast(E, v.x), __builtin_bit_cast(E, v.y), __builtin_bit_cast(E, v.z));
    else
      return To(__builtin_bit_cast(E, v.x), __builtin_bit_cast(E, v.y), __builtin_bit_cast(E, v.z), __builtin_bit_cast(E, v.w));
  } else {
    To r;
    __builtin_memcpy(&r, &v, sizeof(To));
    return r;
  }
}

namespace metal {
using ::as_type;
}

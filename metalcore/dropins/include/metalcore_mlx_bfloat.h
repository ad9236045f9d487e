// metal:: functions for bfloat: computed in float, rounded once. Metal itself returns float.
#pragma once

#define METALCORE_BF1(NAME, CALL) \
  METAL_FUNC bfloat NAME(bfloat x) { return static_cast<bfloat>(CALL(static_cast<float>(x))); }
#define METALCORE_BF2(NAME, CALL)                                                          \
  METAL_FUNC bfloat NAME(bfloat x, bfloat y) {                                             \
    return static_cast<bfloat>(CALL(static_cast<float>(x), static_cast<float>(y)));         \
  }
#define METALCORE_BF3(NAME, CALL)                                                                         \
  METAL_FUNC bfloat NAME(bfloat x, bfloat y, bfloat z) {                                                  \
    return static_cast<bfloat>(CALL(static_cast<float>(x), static_cast<float>(y), static_cast<float>(z))); \
  }

#define METALCORE_BF_MATH(S)                                                                      \
  METALCORE_BF1(acos, S::acos)                                                                    \
  METALCORE_BF1(acosh, S::acosh)                                                                  \
  METALCORE_BF1(asin, S::asin)                                                                    \
  METALCORE_BF1(asinh, S::asinh)                                                                  \
  METALCORE_BF1(atan, S::atan)                                                                    \
  METALCORE_BF1(atanh, S::atanh)                                                                  \
  METALCORE_BF1(ceil, S::ceil)                                                                    \
  METALCORE_BF1(cos, S::cos)                                                                      \
  METALCORE_BF1(cosh, S::cosh)                                                                    \
  METALCORE_BF1(cospi, S::cospi)                                                                  \
  METALCORE_BF1(exp, S::exp)                                                                      \
  METALCORE_BF1(exp10, S::exp10)                                                                  \
  METALCORE_BF1(exp2, S::exp2)                                                                    \
  METALCORE_BF1(abs, S::fabs)                                                                     \
  METALCORE_BF1(fabs, S::fabs)                                                                    \
  METALCORE_BF1(floor, S::floor)                                                                  \
  METALCORE_BF1(fract, S::fract)                                                                  \
  METALCORE_BF1(log, S::log)                                                                      \
  METALCORE_BF1(log10, S::log10)                                                                  \
  METALCORE_BF1(log2, S::log2)                                                                    \
  METALCORE_BF1(rint, S::rint)                                                                    \
  METALCORE_BF1(round, S::round)                                                                  \
  METALCORE_BF1(rsqrt, S::rsqrt)                                                                  \
  METALCORE_BF1(sin, S::sin)                                                                      \
  METALCORE_BF1(sinh, S::sinh)                                                                    \
  METALCORE_BF1(sinpi, S::sinpi)                                                                  \
  METALCORE_BF1(sqrt, S::sqrt)                                                                    \
  METALCORE_BF1(tan, S::tan)                                                                      \
  METALCORE_BF1(tanh, S::tanh)                                                                    \
  METALCORE_BF1(tanpi, S::tanpi)                                                                  \
  METALCORE_BF1(trunc, S::trunc)                                                                  \
  METALCORE_BF2(atan2, S::atan2)                                                                  \
  METALCORE_BF2(divide, S::divide)                                                                \
  METALCORE_BF2(fdim, S::fdim)                                                                    \
  METALCORE_BF2(fmax, S::fmax)                                                                    \
  METALCORE_BF2(fmin, S::fmin)                                                                    \
  METALCORE_BF2(fmod, S::fmod)                                                                    \
  METALCORE_BF2(max, S::fmax)                                                                     \
  METALCORE_BF2(min, S::fmin)                                                                     \
  METALCORE_BF2(nextafter, ::metal::nextafter)                                                    \
  METALCORE_BF2(pow, S::pow)                                                                      \
  METALCORE_BF2(powr, S::powr)                                                                    \
  METALCORE_BF3(fma, ::metal::fma)                                                                \
  METALCORE_BF3(fmax3, S::fmax3)                                                                  \
  METALCORE_BF3(fmedian3, S::fmedian3)                                                            \
  METALCORE_BF3(fmin3, S::fmin3)                                                                  \
  METALCORE_BF3(max3, S::fmax3)                                                                   \
  METALCORE_BF3(median3, S::fmedian3)                                                             \
  METALCORE_BF3(min3, S::fmin3)                                                                   \
  METAL_FUNC bfloat frexp(bfloat x, thread int& e) {                                              \
    return static_cast<bfloat>(S::frexp(static_cast<float>(x), e));                               \
  }                                                                                               \
  METAL_FUNC bfloat ldexp(bfloat x, int k) { return static_cast<bfloat>(S::ldexp(static_cast<float>(x), k)); }

#define METALCORE_BF_SHUFFLE(NAME)                                                            \
  METAL_FUNC bfloat NAME(bfloat v, ushort n) {                                                \
    return as_type<bfloat>(::metal::NAME(as_type<ushort>(v), n));                             \
  }
#define METALCORE_BF_FILL(NAME)                                                               \
  METAL_FUNC bfloat NAME(bfloat v, bfloat fill, ushort n) {                                   \
    return as_type<bfloat>(::metal::NAME(as_type<ushort>(v), as_type<ushort>(fill), n));      \
  }                                                                                           \
  METAL_FUNC bfloat NAME(bfloat v, bfloat fill, ushort n, ushort modulo) {                    \
    return as_type<bfloat>(::metal::NAME(as_type<ushort>(v), as_type<ushort>(fill), n, modulo)); \
  }

namespace metal {
METALCORE_BF_MATH(::metal)
METALCORE_BF_SHUFFLE(simd_broadcast)
METALCORE_BF_SHUFFLE(simd_shuffle)
METALCORE_BF_SHUFFLE(simd_shuffle_down)
METALCORE_BF_SHUFFLE(simd_shuffle_up)
METALCORE_BF_SHUFFLE(simd_shuffle_rotate_down)
METALCORE_BF_SHUFFLE(simd_shuffle_rotate_up)
METALCORE_BF_SHUFFLE(simd_shuffle_xor)
METALCORE_BF_FILL(simd_shuffle_and_fill_down)
METALCORE_BF_FILL(simd_shuffle_and_fill_up)
METALCORE_BF1(simd_max, ::metal::simd_max)
METALCORE_BF1(simd_min, ::metal::simd_min)
METALCORE_BF1(simd_sum, ::metal::simd_sum)
METALCORE_BF1(simd_product, ::metal::simd_product)
METALCORE_BF1(simd_prefix_exclusive_product, ::metal::simd_prefix_exclusive_product)
METALCORE_BF1(simd_prefix_exclusive_sum, ::metal::simd_prefix_exclusive_sum)
METALCORE_BF1(simd_prefix_inclusive_product, ::metal::simd_prefix_inclusive_product)
METALCORE_BF1(simd_prefix_inclusive_sum, ::metal::simd_prefix_inclusive_sum)
namespace fast {
METALCORE_BF_MATH(::metal::fast)
}
namespace precise {
METALCORE_BF_MATH(::metal::precise)
}
}  // namespace metal

#undef METALCORE_BF1
#undef METALCORE_BF2
#undef METALCORE_BF3
#undef METALCORE_BF_MATH
#undef METALCORE_BF_SHUFFLE
#undef METALCORE_BF_FILL

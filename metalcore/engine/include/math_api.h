// The overloads of metal::precise, metal::fast and metal::. Each name has a float and a half function, and one template
// that takes what is left: bfloat, integers (which become float), mixed scalars, vectors and packed vectors. A program
// that adds its own overload for bfloat wins over the template.
#pragma once

#include "math_ops.h"

#define __MC_API1(NAME, OP)                             \
  __MC_MATH float NAME(float x) { return __mc_math::OP::call(x); }   \
  __MC_MATH half NAME(half x) { return __mc_math::OP::call(x); }     \
  template <typename A>                                              \
  __MC_MATH __mc_math::result_t<A> NAME(A x) {                         \
    return __mc_math::each<__mc_math::OP, __mc_math::result_t<A>>(x);  \
  }
#define __MC_API2(NAME, OP)                                           \
  __MC_MATH float NAME(float x, float y) { return __mc_math::OP::call(x, y); }   \
  __MC_MATH half NAME(half x, half y) { return __mc_math::OP::call(x, y); }      \
  template <typename A, typename B>                                              \
  __MC_MATH __mc_math::result_t<A, B> NAME(A x, B y) {                             \
    return __mc_math::each<__mc_math::OP, __mc_math::result_t<A, B>>(x, y);        \
  }
#define __MC_API3(NAME, OP)                                                       \
  __MC_MATH float NAME(float x, float y, float z) { return __mc_math::OP::call(x, y, z); }   \
  __MC_MATH half NAME(half x, half y, half z) { return __mc_math::OP::call(x, y, z); }       \
  template <typename A, typename B, typename C>                                              \
  __MC_MATH __mc_math::result_t<A, B, C> NAME(A x, B y, C z) {                                 \
    return __mc_math::each<__mc_math::OP, __mc_math::result_t<A, B, C>>(x, y, z);              \
  }
#define __MC_API_TWO_RESULTS(NAME, IMPL)                                                                          \
  template <typename T>                                                                                           \
  __MC_MATH typename __mc_math::only_if<__mc_math::is_real<T>, T>::type NAME(T x, T& second) {                    \
    return __mc_math::IMPL(x, second);                                                                            \
  }                                                                                                               \
  template <typename T, int N>                                                                                    \
  __MC_MATH typename __mc_math::only_if<__mc_math::is_real<T>, vec<T, N>>::type NAME(vec<T, N> x, vec<T, N>& second) { \
    return __mc_math::IMPL(x, second);                                                                            \
  }

// The names of both namespaces, in two lists: those with a cheaper fast form, and those that are one and the same.
#define __MC_MATH_GRADED(P)                    \
  __MC_API1(exp, exp_##P##_op)                 \
  __MC_API1(exp2, exp2_##P##_op)               \
  __MC_API1(exp10, exp10_##P##_op)             \
  __MC_API1(log, log_##P##_op)                 \
  __MC_API1(log2, log2_##P##_op)               \
  __MC_API1(log10, log10_##P##_op)             \
  __MC_API1(sin, sin_##P##_op)                 \
  __MC_API1(cos, cos_##P##_op)                 \
  __MC_API1(tan, tan_##P##_op)                 \
  __MC_API1(tanh, tanh_##P##_op)               \
  __MC_API2(pow, pow_##P##_op)                 \
  __MC_API2(powr, powr_##P##_op)               \
  __MC_API_TWO_RESULTS(sincos, sincos_both_##P)

#define __MC_MATH_SHARED                                                                                          \
  __MC_API1(ceil, ceil_p_op)                                                                                      \
  __MC_API1(floor, floor_p_op)                                                                                    \
  __MC_API1(trunc, trunc_p_op)                                                                                    \
  __MC_API1(rint, rint_p_op)                                                                                      \
  __MC_API1(round, round_p_op)                                                                                    \
  __MC_API1(fract, fract_op)                                                                                      \
  __MC_API1(fabs, fabs_p_op)                                                                                      \
  __MC_API1(sqrt, sqrt_p_op)                                                                                      \
  __MC_API1(rsqrt, rsqrt_p_op)                                                                                    \
  __MC_API1(sinpi, sinpi_p_op)                                                                                    \
  __MC_API1(cospi, cospi_p_op)                                                                                    \
  __MC_API1(tanpi, tanpi_p_op)                                                                                    \
  __MC_API1(asin, asin_p_op)                                                                                      \
  __MC_API1(acos, acos_p_op)                                                                                      \
  __MC_API1(atan, atan_p_op)                                                                                      \
  __MC_API1(sinh, sinh_p_op)                                                                                      \
  __MC_API1(cosh, cosh_p_op)                                                                                      \
  __MC_API1(asinh, asinh_p_op)                                                                                    \
  __MC_API1(acosh, acosh_p_op)                                                                                    \
  __MC_API1(atanh, atanh_p_op)                                                                                    \
  __MC_API2(atan2, atan2_p_op)                                                                                    \
  __MC_API2(copysign, copysign_p_op)                                                                              \
  __MC_API2(divide, divide_p_op)                                                                                  \
  __MC_API2(fdim, fdim_p_op)                                                                                      \
  __MC_API2(fmod, fmod_p_op)                                                                                      \
  __MC_API2(nextafter, nextafter_op)                                                                              \
  __MC_API2(fmax, fmax_p_op)                                                                                      \
  __MC_API2(fmin, fmin_p_op)                                                                                      \
  __MC_API3(fmax3, fmax3_p_op)                                                                                    \
  __MC_API3(fmin3, fmin3_p_op)                                                                                    \
  __MC_API3(fmedian3, fmedian3_p_op)                                                                              \
  __MC_API3(fma, fma_op)                                                                                          \
  __MC_API_TWO_RESULTS(modf, modf_both)                                                                           \
  __MC_MATH float ldexp(float x, int k) { return __mc_math::ldexp_op::call(x, k); }                               \
  __MC_MATH half ldexp(half x, int k) { return __mc_math::ldexp_op::call(x, k); }                                 \
  __MC_MATH int ilogb(float x) { return __mc_math::ilogb_op::call(x); }                                           \
  __MC_MATH int ilogb(half x) { return __mc_math::ilogb_op::call(x); }                                            \
  __MC_MATH float frexp(float x, int& e) { return __mc_math::frexp_both(x, e); }                                  \
  __MC_MATH half frexp(half x, int& e) { return __mc_math::frexp_both(x, e); }                                    \
  template <typename T>                                                                                           \
  __MC_MATH __mc_math::other_scalar_t<T> ldexp(T x, int k) {                                                       \
    return __mc_math::ldexp_op::call(static_cast<__mc_math::other_scalar_t<T>>(x), k);                            \
  }                                                                                                               \
  template <typename T>                                                                                           \
  __MC_MATH typename __mc_math::only_if<sizeof(__mc_math::other_scalar_t<T>) != 0, int>::type ilogb(T x) {        \
    return __mc_math::ilogb_op::call(x);                                                                          \
  }                                                                                                               \
  template <typename T>                                                                                           \
  __MC_MATH __mc_math::other_scalar_t<T> frexp(T x, int& e) {                                                      \
    return __mc_math::frexp_both(static_cast<__mc_math::other_scalar_t<T>>(x), e);                                \
  }                                                                                                               \
  template <typename T, int N>                                                                                    \
  __MC_MATH typename __mc_math::only_if<__mc_math::is_real<T>, vec<T, N>>::type ldexp(vec<T, N> x, vec<int, N> k) { \
    return __mc_map<T>(__mc_math::as_function<__mc_math::ldexp_op>(), x, k);                                      \
  }                                                                                                               \
  template <typename T, int N>                                                                                    \
  __MC_MATH typename __mc_math::only_if<__mc_math::is_real<T>, vec<T, N>>::type ldexp(vec<T, N> x, int k) {       \
    return __mc_map<T>(__mc_math::as_function<__mc_math::ldexp_op>(), x, vec<int, N>(k));                         \
  }                                                                                                               \
  template <typename T, int N>                                                                                    \
  __MC_MATH typename __mc_math::only_if<__mc_math::is_real<T>, vec<int, N>>::type ilogb(vec<T, N> x) {            \
    return __mc_map<int>(__mc_math::as_function<__mc_math::ilogb_op>(), x);                                       \
  }                                                                                                               \
  template <typename T, int N>                                                                                    \
  __MC_MATH typename __mc_math::only_if<__mc_math::is_real<T>, vec<T, N>>::type frexp(vec<T, N> x, vec<int, N>& e) { \
    return __mc_math::frexp_both(x, e);                                                                           \
  }

namespace metal {
namespace precise {
__MC_MATH_GRADED(p)
__MC_MATH_SHARED
}  // namespace precise
namespace fast {
__MC_MATH_GRADED(f)
using precise::ceil;
using precise::floor;
using precise::trunc;
using precise::rint;
using precise::round;
using precise::fract;
using precise::fabs;
using precise::sqrt;
using precise::rsqrt;
using precise::sinpi;
using precise::cospi;
using precise::tanpi;
using precise::asin;
using precise::acos;
using precise::atan;
using precise::sinh;
using precise::cosh;
using precise::asinh;
using precise::acosh;
using precise::atanh;
using precise::atan2;
using precise::copysign;
using precise::divide;
using precise::fdim;
using precise::fmod;
using precise::nextafter;
using precise::fmax;
using precise::fmin;
using precise::fmax3;
using precise::fmin3;
using precise::fmedian3;
using precise::fma;
using precise::modf;
using precise::ldexp;
using precise::ilogb;
using precise::frexp;
}  // namespace fast

// metal::exp is fast::exp in fast math and precise::exp otherwise.
#if defined(__FAST_MATH__) || __METAL_MAYBE_FAST_MATH__
#define __MC_MATH_DEFAULT fast
#else
#define __MC_MATH_DEFAULT precise
#endif
using __MC_MATH_DEFAULT::exp;
using __MC_MATH_DEFAULT::exp2;
using __MC_MATH_DEFAULT::exp10;
using __MC_MATH_DEFAULT::log;
using __MC_MATH_DEFAULT::log2;
using __MC_MATH_DEFAULT::log10;
using __MC_MATH_DEFAULT::sin;
using __MC_MATH_DEFAULT::cos;
using __MC_MATH_DEFAULT::tan;
using __MC_MATH_DEFAULT::pow;
using __MC_MATH_DEFAULT::powr;
using __MC_MATH_DEFAULT::sincos;
using __MC_MATH_DEFAULT::ceil;
using __MC_MATH_DEFAULT::floor;
using __MC_MATH_DEFAULT::trunc;
using __MC_MATH_DEFAULT::rint;
using __MC_MATH_DEFAULT::round;
using __MC_MATH_DEFAULT::fract;
using __MC_MATH_DEFAULT::fabs;
using __MC_MATH_DEFAULT::sqrt;
using __MC_MATH_DEFAULT::rsqrt;
using __MC_MATH_DEFAULT::sinpi;
using __MC_MATH_DEFAULT::cospi;
using __MC_MATH_DEFAULT::tanpi;
using __MC_MATH_DEFAULT::asin;
using __MC_MATH_DEFAULT::acos;
using __MC_MATH_DEFAULT::atan;
using __MC_MATH_DEFAULT::sinh;
using __MC_MATH_DEFAULT::cosh;
using __MC_MATH_DEFAULT::tanh;
using __MC_MATH_DEFAULT::asinh;
using __MC_MATH_DEFAULT::acosh;
using __MC_MATH_DEFAULT::atanh;
using __MC_MATH_DEFAULT::atan2;
using __MC_MATH_DEFAULT::copysign;
using __MC_MATH_DEFAULT::divide;
using __MC_MATH_DEFAULT::fdim;
using __MC_MATH_DEFAULT::fmod;
using __MC_MATH_DEFAULT::nextafter;
using __MC_MATH_DEFAULT::fmax;
using __MC_MATH_DEFAULT::fmin;
using __MC_MATH_DEFAULT::fmax3;
using __MC_MATH_DEFAULT::fmin3;
using __MC_MATH_DEFAULT::fmedian3;
using __MC_MATH_DEFAULT::fma;
using __MC_MATH_DEFAULT::modf;
using __MC_MATH_DEFAULT::ldexp;
using __MC_MATH_DEFAULT::ilogb;
using __MC_MATH_DEFAULT::frexp;
}  // namespace metal

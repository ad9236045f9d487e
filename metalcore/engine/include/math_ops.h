// Every math function as an op: a struct with `call` for float, half and bfloat scalars.
#pragma once

#include "math_half.h"
#include "math_rounding.h"
#include "math_special.h"
#ifdef METALCORE_DOUBLE
#include "double_exp.h"
#include "double_hyperbolic.h"
#include "double_trig.h"
#else
#include "math_exp.h"
#include "math_hyperbolic.h"
#include "math_log.h"
#include "math_pow.h"
#include "math_trig.h"
#endif

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

__MC_MATH float sin_p(float x) {
  float cosine;
  return sincos_p(x, cosine);
}
__MC_MATH float cos_p(float x) {
  float cosine;
  sincos_p(x, cosine);
  return cosine;
}
#ifdef METALCORE_DOUBLE  // fast:: is the same
__MC_MATH float sin_f(float x) { return sin_p(x); }
__MC_MATH float cos_f(float x) { return cos_p(x); }
#endif

__MC_OP1(ceil_p) __MC_OP1(floor_p) __MC_OP1(trunc_p) __MC_OP1(rint_p) __MC_OP1(round_p)
__MC_OP1(rsqrt_p) __MC_OP1(sinpi_p)
__MC_OP1(cospi_p) __MC_OP1(tanpi_p) __MC_OP1(asin_p) __MC_OP1(acos_p) __MC_OP1(atan_p) __MC_OP1(sinh_p)
__MC_OP1(cosh_p) __MC_OP1(asinh_p) __MC_OP1(acosh_p) __MC_OP1(atanh_p)
__MC_OP1(exp_f) __MC_OP1(exp2_f) __MC_OP1(exp10_f) __MC_OP1(log_f) __MC_OP1(log2_f) __MC_OP1(log10_f)
__MC_OP1(sin_f) __MC_OP1(cos_f) __MC_OP1(tan_f) __MC_OP1(tanh_f)
// Every half is a normal float below 1e5, and its results are far from float's limits.
__MC_MATH float sin_half(float x) { return choose(x == 0, x, sin_f(x)); }
__MC_MATH float tan_half(float x) { return choose(x == 0, x, tan_f(x)); }
__MC_OP1_HALF(exp_p, exp_f) __MC_OP1_HALF(exp2_p, exp2_f) __MC_OP1_HALF(exp10_p, exp10_f)
__MC_OP1_HALF(log_p, log_f) __MC_OP1_HALF(log2_p, log2_f) __MC_OP1_HALF(log10_p, log10_f)
__MC_OP1_HALF(sin_p, sin_half) __MC_OP1_HALF(cos_p, cos_f) __MC_OP1_HALF(tan_p, tan_half) __MC_OP1_HALF(tanh_p, tanh_f)
__MC_OP2(atan2_p) __MC_OP2(divide_p) __MC_OP2(fdim_p) __MC_OP2(fmod_p)
__MC_OP2(pow_p) __MC_OP2(powr_p) __MC_OP2(pow_f) __MC_OP2(powr_f)
__MC_OP3(fmax3_p) __MC_OP3(fmin3_p) __MC_OP3(fmedian3_p)

template <typename T>
constexpr float below_one = largest_below_one;
template <>
constexpr float below_one<half> = 0x1.ffcp-1f;
template <>
constexpr float below_one<bfloat> = 0x1.fep-1f;
// x - floor(x), below 1; NaN for an infinite x.
struct fract_op {
  __MC_CALL T call(T x) {
    float a = static_cast<float>(x);
    return static_cast<T>(at_most(a - __builtin_floorf(a), below_one<T>));
  }
};
struct fma_op {
  __MC_CALL T call(T x, T y, T z) {
    if constexpr (same<T, float>)
      return fma_(x, y, z);
    else
      return __builtin_elementwise_fma(x, y, z);
  }
};
// What processors may have for short types too.
struct sqrt_p_op {
  __MC_CALL T call(T x) { return __builtin_elementwise_sqrt(x); }
};
struct fmax_p_op {
  __MC_CALL T call(T x, T y) { return __builtin_elementwise_maximumnum(x, y); }
};
struct fmin_p_op {
  __MC_CALL T call(T x, T y) { return __builtin_elementwise_minimumnum(x, y); }
};
struct copysign_p_op {
  __MC_CALL T call(T x, T y) {
    if constexpr (same<T, float>)
      return copysign_(x, y);
    else
      return with_sign_of(x, y);
  }
};
struct fabs_p_op {
  __MC_CALL T call(T x) { return copysign_p_op::call(x, T(0)); }
};
struct nextafter_op {
  __MC_CALL T call(T x, T y) {
    if constexpr (same<T, float>)
      return nextafter_p(x, y);
    else
      return nextafter_short(x, y);
  }
};
struct ldexp_op {
  __MC_CALL T call(T x, int k) { return static_cast<T>(ldexp_p(static_cast<float>(x), k)); }
};
struct ilogb_op {
  __MC_CALL int call(T x) { return ilogb_p(static_cast<float>(x)); }
};

// Functions with a second result, scalar or by component.
#define __MC_TWO_RESULTS(NAME, IMPL)                                                     \
  template <typename T, typename E>                                                      \
  __MC_MATH T NAME(T x, E& second) {                                                     \
    if constexpr (is_real<T>) {                                                          \
      typename pick<same<E, int> ? 3 : 0>::type other;                                   \
      float first = IMPL(static_cast<float>(x), other);                                  \
      second = static_cast<E>(other);                                                    \
      return static_cast<T>(first);                                                      \
    } else {                                                                             \
      typename metal::__mc_shape<E>::element part;                                       \
      T r;                                                                               \
      r.x = NAME(x.x, part), second.x = part;                                            \
      r.y = NAME(x.y, part), second.y = part;                                            \
      if constexpr (metal::__mc_shape<T>::dim > 2) r.z = NAME(x.z, part), second.z = part; \
      if constexpr (metal::__mc_shape<T>::dim > 3) r.w = NAME(x.w, part), second.w = part; \
      return r;                                                                          \
    }                                                                                    \
  }
__MC_TWO_RESULTS(frexp_both, frexp_p)
__MC_TWO_RESULTS(modf_both, modf_p)
__MC_TWO_RESULTS(sincos_both_p, sincos_p)
__MC_TWO_RESULTS(sincos_both_f, sincos_f)
#undef __MC_TWO_RESULTS

}  // namespace __mc_math

#pragma float_control(pop)

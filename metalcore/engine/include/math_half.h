// How a float function serves half, bfloat, vectors and mixed arguments: compute in float, round once.
#pragma once

#include "math_core.h"
#include "metal_packed.h"
#include "metal_vector.h"

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

template <typename A, typename B>
constexpr bool same = false;
template <typename A>
constexpr bool same<A, A> = true;
template <typename A>
constexpr bool is_real = same<A, float> || same<A, half> || same<A, bfloat>;
template <typename A>
constexpr bool is_whole = __is_integral(A) || __is_enum(A);

// The type that scalar arguments are worked in: integers follow the others and are float alone; half with bfloat is float.
template <typename... A>
constexpr bool any_float = (same<A, float> || ...);
template <typename... A>
constexpr bool any_half = (same<A, half> || ...);
template <typename... A>
constexpr bool any_bfloat = (same<A, bfloat> || ...);

template <int Kind>
struct pick {
  typedef float type;
};
template <>
struct pick<1> {
  typedef half type;
};
template <>
struct pick<2> {
  typedef bfloat type;
};
template <>
struct pick<3> {
  typedef int type;
};
template <typename... A>
using scalar_t = typename pick<any_float<A...> ? 0 : any_half<A...> ? (any_bfloat<A...> ? 0 : 1) : any_bfloat<A...> ? 2 : 0>::type;

template <bool B, typename T>
struct only_if {};
template <typename T>
struct only_if<true, T> {
  typedef T type;
};
template <typename V>
struct real_vec {};
template <typename T, int N>
struct real_vec<metal::vec<T, N>> : only_if<is_real<T>, metal::vec<T, N>> {};

template <typename A>
constexpr bool is_scalar_argument = is_real<A> || is_whole<A>;

// result_t<A, B, ...>: what the call returns; absent where it is no math call.
template <bool Scalars, typename... A>
struct result {};
template <typename A>
struct result<false, A> : real_vec<metal::__mc_vec_t<A>> {};
template <typename A, typename B>
struct result<false, A, B> : real_vec<metal::__mc_vec_t<A, B>> {};
template <typename A, typename B, typename C>
struct result<false, A, B, C> : real_vec<metal::__mc_vec_t<A, B, C>> {};
template <typename... A>
struct result<true, A...> {
  typedef scalar_t<A...> type;
};
template <typename... A>
using result_t = typename result<(is_scalar_argument<A> && ...), A...>::type;
// What a scalar other than float and half is worked in: bfloat as itself, integers as float.
template <typename A>
using other_scalar_t = typename only_if<same<A, bfloat> || is_whole<A>, scalar_t<A>>::type;

template <typename T, typename A>
__MC_MATH T convert(A a) {
  if constexpr (is_scalar_argument<A>)
    return T(metal::__mc_cast<typename metal::__mc_shape<T>::element>(a));
  else
    return static_cast<T>(a);
}
// Op::call on scalars of type R, or on each component.
template <typename Op>
struct as_function {
  template <typename... T>
  __attribute__((always_inline, nodebug)) auto operator()(T... x) const {
    return Op::call(x...);
  }
};
template <typename Op, typename R, typename... A>
__MC_MATH R each(A... a) {
  if constexpr (is_real<R>)
    return Op::call(convert<R>(a)...);
  else
    return metal::__mc_map<typename metal::__mc_shape<R>::element>(as_function<Op>(), convert<R>(a)...);
}

// Signs are bits: a NaN keeps the others, which a conversion to float may change.
template <typename T>
__MC_MATH T with_sign_of(T x, T y) {
  auto magnitude = __builtin_bit_cast(unsigned short, x) & 0x7fff, sign = __builtin_bit_cast(unsigned short, y) & 0x8000;
  return __builtin_bit_cast(T, static_cast<unsigned short>(magnitude | sign));
}

// An op: a float function for all scalar types.
#define __MC_CALL template <typename T> __attribute__((always_inline, nodebug)) static
#define __MC_OP1(IMPL) \
  struct IMPL##_op {   \
    __MC_CALL T call(T x) { return static_cast<T>(IMPL(static_cast<float>(x))); } \
  };
// The same with a cheaper function for half, whose range and precision it covers.
#define __MC_OP1_HALF(IMPL, FOR_HALF) \
  struct IMPL##_op {                  \
    __MC_CALL T call(T x) {           \
      if constexpr (same<T, half>)    \
        return static_cast<T>(FOR_HALF(static_cast<float>(x))); \
      else                            \
        return static_cast<T>(IMPL(static_cast<float>(x)));     \
    }                                 \
  };
#define __MC_OP2(IMPL) \
  struct IMPL##_op {   \
    __MC_CALL T call(T x, T y) { return static_cast<T>(IMPL(static_cast<float>(x), static_cast<float>(y))); } \
  };
#define __MC_OP3(IMPL) \
  struct IMPL##_op {   \
    __MC_CALL T call(T x, T y, T z) { \
      return static_cast<T>(IMPL(static_cast<float>(x), static_cast<float>(y), static_cast<float>(z))); \
    } \
  };

}  // namespace __mc_math

#pragma float_control(pop)

// Comparisons that are functions: classification of floats, all, any, select.
#pragma once

#include "metal_as_type.h"
#include "metal_type_traits.h"

__mc_begin

namespace metal {

// In fast mode the compiler may assume that no NaN and no infinity occurs, so the tests look at the bits there.
#ifdef METALCORE_DOUBLE
constexpr ulong __mc_magnitude(float x) { return __builtin_bit_cast(ulong, x) & 0x7ffffffffffffffful; }
constexpr ulong __mc_infinite(float) { return 0x7ff0000000000000ul; }
constexpr ulong __mc_least_normal(float) { return 0x0010000000000000ul; }
constexpr bool signbit(float x) { return __builtin_bit_cast(long, x) < 0; }
#else
constexpr uint __mc_magnitude(float x) { return __builtin_bit_cast(uint, x) & 0x7fffffffu; }
constexpr uint __mc_infinite(float) { return 0x7f800000u; }
constexpr uint __mc_least_normal(float) { return 0x00800000u; }
constexpr bool signbit(float x) { return __builtin_bit_cast(int, x) < 0; }
#endif
#if defined(__MC_MATH_MODE__) && __MC_MATH_MODE__ == 2
constexpr bool isnan(float x) { return __mc_magnitude(x) > __mc_infinite(x); }
#else
constexpr bool isnan(float x) { return x != x; }
#endif
constexpr bool isinf(float x) { return __mc_magnitude(x) == __mc_infinite(x); }
constexpr bool isfinite(float x) { return __mc_magnitude(x) < __mc_infinite(x); }
constexpr bool isnormal(float x) { return __mc_magnitude(x) - __mc_least_normal(x) < __mc_infinite(x) - __mc_least_normal(x); }
constexpr bool isordered(float x, float y) { return !isnan(x) && !isnan(y); }
constexpr bool isunordered(float x, float y) { return isnan(x) || isnan(y); }

// The 16-bit floats are looked at as integers in every mode: no widening, and no 16-bit float compare for the back end.
constexpr uint __mc_magnitude(half x) { return __builtin_bit_cast(ushort, x) & 0x7fffu; }
constexpr uint __mc_magnitude(bfloat x) { return __builtin_bit_cast(ushort, x) & 0x7fffu; }
constexpr uint __mc_infinite(half) { return 0x7c00u; }
constexpr uint __mc_infinite(bfloat) { return 0x7f80u; }
constexpr uint __mc_least_normal(half) { return 0x0400u; }
constexpr uint __mc_least_normal(bfloat) { return 0x0080u; }
template <typename T>
constexpr bool __mc_isnan(T x) {
  return __mc_magnitude(x) > __mc_infinite(x);
}
template <typename T>
constexpr bool __mc_isinf(T x) {
  return __mc_magnitude(x) == __mc_infinite(x);
}
template <typename T>
constexpr bool __mc_isfinite(T x) {
  return __mc_magnitude(x) < __mc_infinite(x);
}
template <typename T>
constexpr bool __mc_isnormal(T x) {
  return __mc_magnitude(x) >= __mc_least_normal(x) && __mc_magnitude(x) < __mc_infinite(x);
}
template <typename T>
constexpr bool __mc_signbit(T x) {
  return __builtin_bit_cast(short, x) < 0;
}
template <typename T>
constexpr bool __mc_isordered(T x, T y) {
  return !__mc_isnan(x) && !__mc_isnan(y);
}
template <typename T>
constexpr bool __mc_isunordered(T x, T y) {
  return __mc_isnan(x) || __mc_isnan(y);
}

constexpr bool isnan(half x) { return __mc_isnan(x); }
constexpr bool isinf(half x) { return __mc_isinf(x); }
constexpr bool isfinite(half x) { return __mc_isfinite(x); }
constexpr bool isnormal(half x) { return __mc_isnormal(x); }
constexpr bool signbit(half x) { return __mc_signbit(x); }
constexpr bool isordered(half x, half y) { return __mc_isordered(x, y); }
constexpr bool isunordered(half x, half y) { return __mc_isunordered(x, y); }

// bfloat comes as templates, so that a source may define its own overloads.
template <typename T>
using __mc_bfloat = enable_if_t<__is_same(T, bfloat), bool>;
#define __MC_TEST(name)                                              \
  template <typename T, __mc_bfloat<T> = true>                       \
  constexpr bool name(T x) {                                         \
    return __mc_##name(x);                                           \
  }                                                                  \
  template <typename A, typename V = __mc_vec_t<A>, int N = __mc_shape<V>::dim>    \
  constexpr vec<bool, N> name(A a) {                                 \
    return __mc_map<bool>([](auto x) { return name(x); }, V(a));     \
  }
__MC_TEST(isnan)
__MC_TEST(isinf)
__MC_TEST(isfinite)
__MC_TEST(isnormal)
__MC_TEST(signbit)
#undef __MC_TEST
#define __MC_TEST2(name)                                                              \
  template <typename T, __mc_bfloat<T> = true>                                        \
  constexpr bool name(T x, T y) {                                                     \
    return __mc_##name(x, y);                                                         \
  }                                                                                   \
  template <typename A, typename B, typename V = __mc_vec_t<A, B>, int N = __mc_shape<V>::dim>    \
  constexpr vec<bool, N> name(A a, B b) {                                             \
    return __mc_map<bool>([](auto x, auto y) { return name(x, y); }, V(a), V(b));     \
  }
__MC_TEST2(isordered)
__MC_TEST2(isunordered)
#undef __MC_TEST2

constexpr bool all(bool x) { return x; }
constexpr bool all(bool2 v) { return v.x && v.y; }
constexpr bool all(bool3 v) { return v.x && v.y && v.z; }
constexpr bool all(bool4 v) { return v.x && v.y && v.z && v.w; }
constexpr bool any(bool x) { return x; }
constexpr bool any(bool2 v) { return v.x || v.y; }
constexpr bool any(bool3 v) { return v.x || v.y || v.z; }
constexpr bool any(bool4 v) { return v.x || v.y || v.z || v.w; }

// select(a, b, c) is b where c is true. (`not` is a word of C++ and needs no function.)
template <typename T, enable_if_t<!is_vector_v<T>, bool> = true>
constexpr T select(T a, T b, bool c) {
  return c ? b : a;
}
template <typename A, typename B, enable_if_t<!__is_same(A, B) && __is_arithmetic(A) && __is_arithmetic(B), bool> = true>
constexpr auto select(A a, B b, bool c) -> decltype(a + b) {
  return c ? b : a;
}
template <typename A, typename B, typename C, typename V = __mc_vec_t<A, B>>
constexpr V select(A a, B b, C c) {
  typedef typename V::__mc_element T;
  constexpr int n = __mc_shape<V>::dim;
  return __mc_map<T>([](T x, T y, bool z) { return z ? y : x; }, V(a), V(b), vec<bool, n>(c));
}

}  // namespace metal

__mc_end

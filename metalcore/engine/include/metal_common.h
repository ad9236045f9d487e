// min, max, clamp and abs of every type, and the common functions of floats: mix, saturate, sign, smoothstep, step.
#pragma once

#include "metal_relational.h"

__mc_begin

namespace metal {

// Scalars. Where one operand is NaN, min and max give the other one. clang has no constants of the short types' own
// operation; through float it is exact.
#define __MC_EXTREME(name, which)                                                                                       \
  constexpr float name(float x, float y) { return __builtin_f##which##_numf(x, y); }                                    \
  constexpr half name(half x, half y) {                                                                                 \
    if consteval {                                                                                                      \
      return half(__builtin_f##which##_numf(float(x), float(y)));                                                       \
    }                                                                                                                   \
    return __builtin_elementwise_##which##num(x, y);                                                                    \
  }                                                                                                                     \
  constexpr bfloat name(bfloat x, bfloat y) {                                                                           \
    if consteval {                                                                                                      \
      return bfloat(__builtin_f##which##_numf(float(x), float(y)));                                                     \
    }                                                                                                                   \
    return __builtin_elementwise_##which##num(x, y);                                                                    \
  }
__MC_EXTREME(__mc_min, minimum)
__MC_EXTREME(__mc_max, maximum)
#undef __MC_EXTREME
template <typename T>
constexpr T __mc_min(T x, T y) {
  return y < x ? y : x;
}
template <typename T>
constexpr T __mc_max(T x, T y) {
  return x < y ? y : x;
}
template <typename T>
constexpr T __mc_clamp(T x, T low, T high) {
  return __mc_min(__mc_max(x, low), high);
}
template <typename T>
constexpr T __mc_median3(T x, T y, T z) {
  return __mc_max(__mc_min(x, y), __mc_min(__mc_max(x, y), z));
}

// Overloads rather than templates, so that arguments convert as they do in Metal.
#define __MC_ORDER(T)                                                                  \
  constexpr T min(T x, T y) { return __mc_min(x, y); }                                 \
  constexpr T max(T x, T y) { return __mc_max(x, y); }                                 \
  constexpr T min3(T x, T y, T z) { return __mc_min(__mc_min(x, y), z); }              \
  constexpr T max3(T x, T y, T z) { return __mc_max(__mc_max(x, y), z); }              \
  constexpr T median3(T x, T y, T z) { return __mc_median3(x, y, z); }                 \
  constexpr T clamp(T x, T low, T high) { return __mc_clamp(x, low, high); }
__MC_ORDER(char)
__MC_ORDER(int8_t)
__MC_ORDER(uchar)
__MC_ORDER(short)
__MC_ORDER(ushort)
__MC_ORDER(int)
__MC_ORDER(uint)
__MC_ORDER(long)
__MC_ORDER(ulong)
__MC_ORDER(half)
__MC_ORDER(float)
#undef __MC_ORDER

// For vectors, with scalars spread over them: an expression of x, y and z, their elements.
#define __MC_VECTORS1(name)                                                                                      \
  template <typename A, typename V = __mc_vec_t<A>>                                                              \
  constexpr V name(A a) {                                                                                        \
    typedef typename V::__mc_element T;                                                                          \
    return __mc_map<T>([](T x) { return __mc_##name(x); }, V(a));                                                \
  }
#define __MC_VECTORS2(name)                                                                                      \
  template <typename A, typename B, typename V = __mc_vec_t<A, B>>                                               \
  constexpr V name(A a, B b) {                                                                                   \
    typedef typename V::__mc_element T;                                                                          \
    return __mc_map<T>([](T x, T y) { return __mc_##name(x, y); }, V(a), V(b));                                  \
  }
#define __MC_VECTORS3(name, expression)                                                                          \
  template <typename A, typename B, typename C, typename V = __mc_vec_t<A, B, C>>                                \
  constexpr V name(A a, B b, C c) {                                                                              \
    typedef typename V::__mc_element T;                                                                          \
    return __mc_map<T>([](T x, T y, T z) { return expression; }, V(a), V(b), V(c));                              \
  }

// Mixed scalars, which plain overloads would call ambiguous; bfloat; vectors with scalars spread over them.
template <typename A, typename B>
using __mc_mixed2 = enable_if_t<(__is_arithmetic(A) && __is_arithmetic(B) && (!__is_same(A, B) || __is_same(A, bfloat))), bool>;
template <typename A, typename B, typename C>
using __mc_mixed3 = enable_if_t<(__is_arithmetic(A) && __is_arithmetic(B) && __is_arithmetic(C) &&
                                 (!__is_same(A, B) || !__is_same(B, C) || __is_same(A, bfloat))),
                                bool>;
#define __MC_ORDER2(name)                                                                                        \
  template <typename A, typename B, __mc_mixed2<A, B> = true>                                                    \
  constexpr auto name(A x, B y) -> decltype(x + y) {                                                             \
    typedef decltype(x + y) T;                                                                                   \
    return __mc_##name(__mc_cast<T>(x), __mc_cast<T>(y));                                                        \
  }                                                                                                              \
  __MC_VECTORS2(name)
__MC_ORDER2(min)
__MC_ORDER2(max)
#undef __MC_ORDER2
#define __MC_ORDER3(name, expression)                                                                            \
  template <typename A, typename B, typename C, __mc_mixed3<A, B, C> = true>                                     \
  constexpr auto name(A a, B b, C c) -> decltype(a + b + c) {                                                    \
    typedef decltype(a + b + c) T;                                                                               \
    T x = __mc_cast<T>(a), y = __mc_cast<T>(b), z = __mc_cast<T>(c);                                             \
    return expression;                                                                                           \
  }                                                                                                              \
  __MC_VECTORS3(name, expression)
__MC_ORDER3(min3, __mc_min(__mc_min(x, y), z))
__MC_ORDER3(max3, __mc_max(__mc_max(x, y), z))
__MC_ORDER3(median3, __mc_median3(x, y, z))
__MC_ORDER3(clamp, __mc_clamp(x, y, z))
#undef __MC_ORDER3

// abs: the magnitude; of the least signed integer it is that integer, as the hardware wraps.
constexpr float abs(float x) { return __builtin_fabsf(x); }
constexpr half abs(half x) { return __builtin_bit_cast(half, ushort(__builtin_bit_cast(ushort, x) & 0x7fff)); }
#define __MC_ABS(T, U) \
  constexpr T abs(T x) { return x < 0 ? T(U(0) - U(x)) : x; }
__MC_ABS(char, uchar)
__MC_ABS(int8_t, uchar)
__MC_ABS(short, ushort)
__MC_ABS(int, uint)
__MC_ABS(long, ulong)
#undef __MC_ABS
constexpr uchar abs(uchar x) { return x; }
constexpr ushort abs(ushort x) { return x; }
constexpr uint abs(uint x) { return x; }
constexpr ulong abs(ulong x) { return x; }
template <typename T, __mc_bfloat<T> = true>
constexpr T abs(T x) {
  return __builtin_bit_cast(T, ushort(__builtin_bit_cast(ushort, x) & 0x7fff));
}
template <typename A, typename V = __mc_vec_t<A>>
constexpr V abs(A a) {
  typedef typename V::__mc_element T;
  return __mc_map<T>([](T x) { return T(metal::abs(x)); }, V(a));
}

// Functions of floats alone. T is half, float or bfloat; each is written once and lifted to vectors.
template <typename T>
constexpr T __mc_mix(T x, T y, T a) {
  return T(x + T(T(y - x) * a));
}
constexpr float __mc_mix(float x, float y, float a) { return x + (y - x) * a; }
template <typename T>
constexpr T __mc_saturate(T x) {
  return __mc_clamp(x, T(0), T(1));
}
template <typename T>
constexpr T __mc_sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? x : T(0);
}
template <typename T>
constexpr T __mc_step(T edge, T x) {
  return x < edge ? T(0) : T(1);
}
template <typename T>
constexpr T __mc_smoothstep(T low, T high, T x) {
  T t = __mc_saturate(T(T(x - low) / T(high - low)));
  return T(T(t * t) * T(T(3) - T(T(2) * t)));
}
#define __MC_FLOAT1(name)                                                                          \
  constexpr float name(float x) { return __mc_##name(x); }                                         \
  constexpr half name(half x) { return __mc_##name(x); }                                           \
  template <typename T, __mc_bfloat<T> = true>                                                     \
  constexpr T name(T x) {                                                                          \
    return __mc_##name(x);                                                                         \
  }                                                                                                \
  __MC_VECTORS1(name)
__MC_FLOAT1(saturate)
__MC_FLOAT1(sign)
#undef __MC_FLOAT1

constexpr float step(float edge, float x) { return __mc_step(edge, x); }
constexpr half step(half edge, half x) { return __mc_step(edge, x); }
template <typename A, typename B, __mc_mixed2<A, B> = true>
constexpr auto step(A edge, B x) -> decltype(edge + x) {
  return __mc_step<decltype(edge + x)>(edge, x);
}
template <typename A, typename B, typename V = __mc_vec_t<A, B>>
constexpr V step(A edge, B x) {
  typedef typename V::__mc_element T;
  return __mc_map<T>([](T e, T v) { return __mc_step(e, v); }, V(edge), V(x));
}
#define __MC_FLOAT3(name)                                                                                     \
  constexpr float name(float x, float y, float z) { return __mc_##name(x, y, z); }                            \
  constexpr half name(half x, half y, half z) { return __mc_##name(x, y, z); }                                \
  template <typename A, typename B, typename C, __mc_mixed3<A, B, C> = true>                                  \
  constexpr auto name(A x, B y, C z) -> decltype(x + y + z) {                                                 \
    typedef decltype(x + y + z) T;                                                                            \
    return __mc_##name(__mc_cast<T>(x), __mc_cast<T>(y), __mc_cast<T>(z));                                    \
  }                                                                                                           \
  template <typename A, typename B, typename C, typename V = __mc_vec_t<A, B, C>>                             \
  constexpr V name(A a, B b, C c) {                                                                           \
    typedef typename V::__mc_element T;                                                                       \
    return __mc_map<T>([](T x, T y, T z) { return __mc_##name(x, y, z); }, V(a), V(b), V(c));                 \
  }
__MC_FLOAT3(mix)
__MC_FLOAT3(smoothstep)
#undef __MC_FLOAT3

#define __MC_SAME_IN(space)  \
  namespace space {          \
  using metal::abs;          \
  using metal::clamp;        \
  using metal::max;          \
  using metal::max3;         \
  using metal::median3;      \
  using metal::min;          \
  using metal::min3;         \
  using metal::mix;          \
  using metal::saturate;     \
  using metal::sign;         \
  using metal::smoothstep;   \
  using metal::step;         \
  }
__MC_SAME_IN(fast)
__MC_SAME_IN(precise)
#undef __MC_SAME_IN

}  // namespace metal

__mc_end

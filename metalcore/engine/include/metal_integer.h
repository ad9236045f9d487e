// Integer functions. All are defined for every 8- to 64-bit integer and, element by element, for vectors of them.
#pragma once

#include "metal_common.h"

__mc_begin

namespace metal {

template <typename T>
constexpr int __mc_bits_of = sizeof(T) * 8;
template <typename T>
using __mc_unsigned = __make_unsigned(T);
// The type of twice the width, in which products and sums are exact.
template <typename T>
struct __mc_wider {
  typedef long type;
};
template <>
struct __mc_wider<uchar> {
  typedef uint type;
};
template <>
struct __mc_wider<ushort> {
  typedef uint type;
};
template <>
struct __mc_wider<uint> {
  typedef ulong type;
};
template <>
struct __mc_wider<char> {
  typedef int type;
};
template <>
struct __mc_wider<int8_t> {
  typedef int type;
};
template <>
struct __mc_wider<short> {
  typedef int type;
};

// One value each; T is an integer type.
template <typename T>
constexpr __mc_unsigned<T> __mc_absdiff(T x, T y) {
  typedef __mc_unsigned<T> U;
  return x > y ? U(U(x) - U(y)) : U(U(y) - U(x));
}
template <typename T>
constexpr T __mc_lowest() {
  return T(-1) < T(0) ? T(__mc_unsigned<T>(1) << (__mc_bits_of<T> - 1)) : T(0);
}
template <typename T>
constexpr T __mc_highest() {
  return T(~__mc_lowest<T>());
}
// Overflow of a signed sum shows in the signs: both operands differ from the result.
template <typename T>
constexpr T __mc_addsat(T x, T y) {
  typedef __mc_unsigned<T> U;
  T s = T(U(x) + U(y));
  if constexpr (T(-1) < T(0)) {
    T over = x < 0 ? __mc_lowest<T>() : __mc_highest<T>();
    return T((x ^ s) & (y ^ s)) < 0 ? over : s;
  } else {
    return s < x ? T(-1) : s;
  }
}
template <typename T>
constexpr T __mc_subsat(T x, T y) {
  typedef __mc_unsigned<T> U;
  T s = T(U(x) - U(y));
  if constexpr (T(-1) < T(0)) {
    T over = x < 0 ? __mc_lowest<T>() : __mc_highest<T>();
    return T((x ^ y) & (x ^ s)) < 0 ? over : s;
  } else {
    return x < y ? T(0) : s;
  }
}
// (x + y) >> 1 and (x + y + 1) >> 1 without overflow.
template <typename T>
constexpr T __mc_hadd(T x, T y) {
  return T((x & y) + ((x ^ y) >> 1));
}
template <typename T>
constexpr T __mc_rhadd(T x, T y) {
  return T((x | y) - ((x ^ y) >> 1));
}
// The upper half of the product; 64 bits are built from 32-bit halves, because vector units have no wider product.
constexpr ulong __mc_mulhi64(ulong x, ulong y) {
  ulong xl = uint(x), xh = x >> 32, yl = uint(y), yh = y >> 32;
  ulong low = xl * yl, a = xh * yl, b = xl * yh;
  ulong middle = (low >> 32) + uint(a) + uint(b);
  return xh * yh + (a >> 32) + (b >> 32) + (middle >> 32);
}
template <typename T>
constexpr T __mc_mulhi(T x, T y) {
  if constexpr (sizeof(T) == 8) {
    ulong high = __mc_mulhi64(ulong(x), ulong(y));
    if constexpr (T(-1) < T(0)) high -= (x < 0 ? ulong(y) : 0) + (y < 0 ? ulong(x) : 0);
    return T(high);
  } else {
    typedef typename __mc_wider<T>::type W;
    return T((W(x) * W(y)) >> __mc_bits_of<T>);
  }
}
template <typename T>
constexpr T __mc_mul_wrap(T x, T y) {
  if constexpr (sizeof(T) == 8)
    return T(ulong(x) * ulong(y));
  else
    return T(uint(x) * uint(y));
}
template <typename T>
constexpr T __mc_madhi(T a, T b, T c) {
  typedef __mc_unsigned<T> U;
  return T(U(__mc_mulhi(a, b)) + U(c));
}
// a * b + c, saturated. The product is exact in the wider type; for 64 bits its upper half tells whether it fits.
template <typename T>
constexpr T __mc_madsat(T a, T b, T c) {
  if constexpr (sizeof(T) == 8) {
    T low = __mc_mul_wrap(a, b), high = __mc_mulhi(a, b);
    if constexpr (T(-1) < T(0)) {
      // The 128-bit sum, then a test that its upper half is the sign of the lower one.
      ulong sum = ulong(low) + ulong(c);
      long carry = long(sum < ulong(low)) + (c >> 63);
      T upper = T(ulong(high) + ulong(carry));
      return upper == (T(sum) >> 63) ? T(sum) : upper < 0 ? __mc_lowest<T>() : __mc_highest<T>();
    } else {
      T sum = T(low + c);
      return high != 0 || sum < low ? T(-1) : sum;
    }
  } else {
    typedef typename __mc_wider<T>::type W;
    W low = __mc_lowest<T>(), high = __mc_highest<T>();
    if constexpr (T(-1) < T(0)) {
      long r = long(a) * long(b) + long(c);
      return T(r < long(low) ? long(low) : r > long(high) ? long(high) : r);
    } else {
      ulong r = ulong(a) * ulong(b) + ulong(c);
      return T(r > ulong(high) ? ulong(high) : r);
    }
  }
}
template <typename T>
constexpr T __mc_clz(T x) {
  if constexpr (sizeof(T) == 8)
    return x == 0 ? T(64) : T(__builtin_clzl(ulong(x)));
  else
    return x == 0 ? T(__mc_bits_of<T>) : T(__builtin_clz(uint(__mc_unsigned<T>(x))) - (32 - __mc_bits_of<T>));
}
template <typename T>
constexpr T __mc_ctz(T x) {
  if constexpr (sizeof(T) == 8)
    return x == 0 ? T(64) : T(__builtin_ctzl(ulong(x)));
  else
    return x == 0 ? T(__mc_bits_of<T>) : T(__builtin_ctz(uint(__mc_unsigned<T>(x))));
}
template <typename T>
constexpr T __mc_popcount(T x) {
  if constexpr (sizeof(T) == 8)
    return T(__builtin_popcountl(ulong(x)));
  else
    return T(__builtin_popcount(uint(__mc_unsigned<T>(x))));
}
template <typename T>
constexpr T __mc_reverse_bits(T x) {
  if constexpr (sizeof(T) == 8)
    return T(__builtin_bitreverse64(ulong(x)));
  else
    return T(__builtin_bitreverse32(uint(__mc_unsigned<T>(x))) >> (32 - __mc_bits_of<T>));
}
// A rotation to the left by n modulo the width.
template <typename T>
constexpr T __mc_rotate(T x, T n) {
  typedef __mc_unsigned<T> U;
  constexpr unsigned mask = __mc_bits_of<T> - 1;
  unsigned left = unsigned(n) & mask, right = (0u - left) & mask;
  return T(U(U(x) << left) | U(U(x) >> right));
}
// Bits [offset, offset + count) of x, sign-extended where T is signed; no bits give 0.
template <typename T>
constexpr T __mc_extract_bits(T x, uint offset, uint count) {
  typedef __mc_unsigned<T> U;
  uint left = (__mc_bits_of<T> - offset - count) & (__mc_bits_of<T> - 1), right = (__mc_bits_of<T> - count) & (__mc_bits_of<T> - 1);
  T up = T(U(U(x) << left));
  return count == 0 ? T(0) : T(up >> right);
}
template <typename T>
constexpr T __mc_insert_bits(T base, T insert, uint offset, uint count) {
  typedef __mc_unsigned<T> U;
  U ones = count >= uint(__mc_bits_of<T>) ? U(-1) : U((U(1) << (count & (__mc_bits_of<T> - 1))) - 1);
  uint shift = offset & (__mc_bits_of<T> - 1);
  U mask = U(ones << shift);
  return T((U(base) & U(~mask)) | (U(U(insert) << shift) & mask));
}

// Only integers: is_integral is also true for vectors, so the builtin is asked.
template <typename A, typename... B>
using __mc_integers = enable_if_t<(__is_integral(A) && ... && __is_integral(B)), bool>;
// Two scalar arguments may differ in type, as they may where Metal converts: the sum's type then; a single type stays.
template <typename A, typename B>
struct __mc_meet {
  typedef decltype(A() + B()) type;
};
template <typename A>
struct __mc_meet<A, A> {
  typedef A type;
};
template <typename A, typename B>
using __mc_meet_t = typename __mc_meet<A, B>::type;

#define __MC_INT1(name)                                                                     \
  template <typename T, __mc_integers<T> = true>                                            \
  constexpr T name(T x) {                                                                   \
    return __mc_##name(x);                                                                  \
  }                                                                                         \
  __MC_VECTORS1(name)
__MC_INT1(clz)
__MC_INT1(ctz)
__MC_INT1(popcount)
__MC_INT1(reverse_bits)
#undef __MC_INT1

#define __MC_INT2(name)                                                                     \
  template <typename A, typename B, __mc_integers<A, B> = true>                             \
  constexpr __mc_meet_t<A, B> name(A x, B y) {                                              \
    return __mc_##name(__mc_meet_t<A, B>(x), __mc_meet_t<A, B>(y));                         \
  }                                                                                         \
  __MC_VECTORS2(name)
__MC_INT2(addsat)
__MC_INT2(subsat)
__MC_INT2(hadd)
__MC_INT2(rhadd)
__MC_INT2(mulhi)
#undef __MC_INT2
template <typename A, typename B, __mc_integers<A, B> = true>
constexpr A rotate(A x, B n) {
  return __mc_rotate(x, A(n));
}
template <typename A, typename B, typename V = __mc_vec_t<A, B>>
constexpr V rotate(A a, B b) {
  typedef typename V::__mc_element T;
  return __mc_map<T>([](T x, T n) { return __mc_rotate(x, n); }, V(a), V(b));
}
template <typename A, typename B, __mc_integers<A, B> = true>
constexpr __mc_unsigned<__mc_meet_t<A, B>> absdiff(A x, B y) {
  return __mc_absdiff(__mc_meet_t<A, B>(x), __mc_meet_t<A, B>(y));
}
template <typename A, typename B, typename V = __mc_vec_t<A, B>>
constexpr make_unsigned_t<V> absdiff(A a, B b) {
  typedef typename V::__mc_element T;
  return __mc_map<__mc_unsigned<T>>([](T x, T y) { return __mc_absdiff(x, y); }, V(a), V(b));
}

#define __MC_INT3(name)                                                                     \
  template <typename A, typename B, typename C, __mc_integers<A, B, C> = true>              \
  constexpr __mc_meet_t<__mc_meet_t<A, B>, C> name(A x, B y, C z) {                         \
    typedef __mc_meet_t<__mc_meet_t<A, B>, C> T;                                            \
    return __mc_##name(T(x), T(y), T(z));                                                   \
  }                                                                                         \
  __MC_VECTORS3(name, __mc_##name(x, y, z))
__MC_INT3(madhi)
__MC_INT3(madsat)
#undef __MC_INT3

template <typename T, __mc_integers<T> = true>
constexpr T extract_bits(T x, uint offset, uint bits) {
  return __mc_extract_bits(x, offset, bits);
}
template <typename A, typename V = __mc_vec_t<A>>
constexpr V extract_bits(A a, uint offset, uint bits) {
  typedef typename V::__mc_element T;
  return __mc_map<T>([=](T x) { return __mc_extract_bits(x, offset, bits); }, V(a));
}
template <typename T, __mc_integers<T> = true>
constexpr T insert_bits(T base, T insert, uint offset, uint bits) {
  return __mc_insert_bits(base, insert, offset, bits);
}
template <typename A, typename V = __mc_vec_t<A>>
constexpr V insert_bits(A base, A insert, uint offset, uint bits) {
  typedef typename V::__mc_element T;
  return __mc_map<T>([=](T x, T y) { return __mc_insert_bits(x, y, offset, bits); }, V(base), V(insert));
}

// 24-bit products: the low 24 bits of each operand, sign-extended for int.
constexpr int __mc_mul24(int x, int y) { return int(uint(int(uint(x) << 8) >> 8) * uint(int(uint(y) << 8) >> 8)); }
constexpr uint __mc_mul24(uint x, uint y) { return (x & 0xffffffu) * (y & 0xffffffu); }
constexpr int mul24(int x, int y) { return __mc_mul24(x, y); }
constexpr uint mul24(uint x, uint y) { return __mc_mul24(x, y); }
constexpr int mad24(int x, int y, int z) { return int(uint(__mc_mul24(x, y)) + uint(z)); }
constexpr uint mad24(uint x, uint y, uint z) { return __mc_mul24(x, y) + z; }
template <typename A, typename B, typename V = __mc_vec_t<A, B>>
constexpr V mul24(A a, B b) {
  typedef typename V::__mc_element T;
  return __mc_map<T>([](T x, T y) { return __mc_mul24(x, y); }, V(a), V(b));
}
template <typename A, typename B, typename C, typename V = __mc_vec_t<A, B, C>>
constexpr V mad24(A a, B b, C c) {
  typedef typename V::__mc_element T;
  return __mc_map<T>([](T x, T y, T z) { return metal::mad24(x, y, z); }, V(a), V(b), V(c));
}

}  // namespace metal

__mc_end

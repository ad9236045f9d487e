// packed_float3 and its kin: as vec, but with the alignment of one element. Arithmetic happens on the vec that it converts to.
#pragma once

#include "metal_vector.h"

__mc_begin

namespace metal {

// V = vec<T, N> is a template argument so that argument-dependent lookup finds the operators of vec.
#define __MC_PACKED_COMMON(N)                                                                  \
  packed_vec() = default;                                                                      \
  __mc_splat constexpr packed_vec(T s) : packed_vec(V(s)) {}                                   \
  template <typename U>                                                                        \
  explicit constexpr packed_vec(const vec<U, N>& o) : packed_vec(V(o)) {}                      \
  template <typename U>                                                                        \
  explicit constexpr packed_vec(const packed_vec<U, N>& o) : packed_vec(V(vec<U, N>(o))) {}    \
  constexpr packed_vec& operator+=(const V& r) { return *this = V(*this) + r; }                \
  constexpr packed_vec& operator-=(const V& r) { return *this = V(*this) - r; }                \
  constexpr packed_vec& operator*=(const V& r) { return *this = V(*this) * r; }                \
  constexpr packed_vec& operator/=(const V& r) { return *this = V(*this) / r; }                \
  constexpr packed_vec& operator%=(const V& r) { return *this = V(*this) % r; }                \
  constexpr packed_vec& operator&=(const V& r) { return *this = V(*this) & r; }                \
  constexpr packed_vec& operator|=(const V& r) { return *this = V(*this) | r; }                \
  constexpr packed_vec& operator^=(const V& r) { return *this = V(*this) ^ r; }                \
  constexpr packed_vec& operator<<=(const V& r) { return *this = V(*this) << r; }              \
  constexpr packed_vec& operator>>=(const V& r) { return *this = V(*this) >> r; }              \
  constexpr packed_vec& operator++() { return *this = V(*this) + V(T(1)); }                    \
  constexpr packed_vec& operator--() { return *this = V(*this) - V(T(1)); }                    \
  T& operator[](size_t i) & { return reinterpret_cast<T*>(this)[i]; }                          \
  constexpr T operator[](size_t i) const { return __builtin_is_constant_evaluated() ? V(*this)[i] : reinterpret_cast<const T*>(this)[i]; }

template <typename T, typename V>
struct packed_vec<T, 2, V> {
  typedef T __mc_element;
  T x, y;

  __MC_PACKED_COMMON(2)
  constexpr packed_vec(const packed_vec& o) : x(o.x), y(o.y) {}
  constexpr packed_vec(const V& o) : x(o.x), y(o.y) {}
  constexpr packed_vec(T a, T b) : x(a), y(b) {}
  constexpr packed_vec(__mc_fewer_t, T a) : x(a), y(T(0)) {}
  constexpr operator V() const { return V(x, y); }
  constexpr packed_vec& operator=(const packed_vec& o) {
    T a = o.x, b = o.y;
    x = a, y = b;
    return *this;
  }
  __MC_SWIZZLES2
};

template <typename T, typename V>
struct packed_vec<T, 3, V> {
  typedef T __mc_element;
  T x, y, z;

  __MC_PACKED_COMMON(3)
  constexpr packed_vec(const packed_vec& o) : x(o.x), y(o.y), z(o.z) {}
  constexpr packed_vec(const V& o) : x(o.x), y(o.y), z(o.z) {}
  constexpr packed_vec(T a, T b, T c) : x(a), y(b), z(c) {}
  constexpr packed_vec(__mc_fewer_t, T a, T b = T(0), T c = T(0)) : x(a), y(b), z(c) {}
  template <typename A, typename B, __mc_dims<3, A, B> = 0>
  constexpr packed_vec(A a, B b) : packed_vec(V(a, b)) {}
  constexpr operator V() const { return V(x, y, z); }
  constexpr packed_vec& operator=(const packed_vec& o) {
    T a = o.x, b = o.y, c = o.z;
    x = a, y = b, z = c;
    return *this;
  }
  __MC_SWIZZLES3
};

template <typename T, typename V>
struct packed_vec<T, 4, V> {
  typedef T __mc_element;
  T x, y, z, w;

  __MC_PACKED_COMMON(4)
  constexpr packed_vec(const packed_vec& o) : x(o.x), y(o.y), z(o.z), w(o.w) {}
  constexpr packed_vec(const V& o) : x(o.x), y(o.y), z(o.z), w(o.w) {}
  constexpr packed_vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
  constexpr packed_vec(__mc_fewer_t, T a, T b = T(0), T c = T(0), T d = T(0)) : x(a), y(b), z(c), w(d) {}
  template <typename A, typename B, __mc_dims<4, A, B> = 0>
  constexpr packed_vec(A a, B b) : packed_vec(V(a, b)) {}
  template <typename A, typename B, typename C, __mc_dims<4, A, B, C> = 0>
  constexpr packed_vec(A a, B b, C c) : packed_vec(V(a, b, c)) {}
  constexpr operator V() const { return V(x, y, z, w); }
  constexpr packed_vec& operator=(const packed_vec& o) {
    T a = o.x, b = o.y, c = o.z, d = o.w;
    x = a, y = b, z = c, w = d;
    return *this;
  }
  __MC_SWIZZLES4
};
#undef __MC_PACKED_COMMON

}  // namespace metal

__mc_end

#define __MC_NAME(T, t)                      \
  typedef metal::packed_vec<T, 2> packed_##t##2; \
  typedef metal::packed_vec<T, 3> packed_##t##3; \
  typedef metal::packed_vec<T, 4> packed_##t##4; \
  namespace metal {                          \
  using ::packed_##t##2;                     \
  using ::packed_##t##3;                     \
  using ::packed_##t##4;                     \
  }
__MC_SCALARS(__MC_NAME)
#undef __MC_NAME

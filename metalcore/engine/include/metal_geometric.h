// Functions of vectors as points and directions. Half and bfloat are summed in float and rounded once.
#pragma once

#include "metal_common.h"

__mc_begin

namespace metal {

// The type sums are kept in: float for the 16-bit floats.
template <typename T>
struct __mc_sum_type {
  typedef T type;
};
template <>
struct __mc_sum_type<half> {
  typedef float type;
};
template <>
struct __mc_sum_type<bfloat> {
  typedef float type;
};

template <typename T, typename S = typename __mc_sum_type<T>::type>
constexpr S __mc_dot(const vec<T, 2>& a, const vec<T, 2>& b) {
  return S(a.x) * S(b.x) + S(a.y) * S(b.y);
}
template <typename T, typename S = typename __mc_sum_type<T>::type>
constexpr S __mc_dot(const vec<T, 3>& a, const vec<T, 3>& b) {
  return S(a.x) * S(b.x) + S(a.y) * S(b.y) + S(a.z) * S(b.z);
}
template <typename T, typename S = typename __mc_sum_type<T>::type>
constexpr S __mc_dot(const vec<T, 4>& a, const vec<T, 4>& b) {
  return S(a.x) * S(b.x) + S(a.y) * S(b.y) + S(a.z) * S(b.z) + S(a.w) * S(b.w);
}

template <typename A, typename B, typename V = __mc_vec_t<A, B>>
constexpr typename V::__mc_element dot(A a, B b) {
  return typename V::__mc_element(__mc_dot(V(a), V(b)));
}
template <typename A, typename V = __mc_vec_t<A>>
constexpr typename V::__mc_element length_squared(A a) {
  return typename V::__mc_element(__mc_dot(V(a), V(a)));
}
template <typename A, typename V = __mc_vec_t<A>>
constexpr typename V::__mc_element length(A a) {
  return typename V::__mc_element(__builtin_sqrtf(__mc_dot(V(a), V(a))));
}
template <typename A, typename B, typename V = __mc_vec_t<A, B>>
constexpr typename V::__mc_element distance_squared(A a, B b) {
  return metal::length_squared(V(a) - V(b));
}
template <typename A, typename B, typename V = __mc_vec_t<A, B>>
constexpr typename V::__mc_element distance(A a, B b) {
  return metal::length(V(a) - V(b));
}
template <typename A, typename V = __mc_vec_t<A>>
constexpr V normalize(A a) {
  typedef typename V::__mc_element T;
  V v = a;
  float scale = 1.0f / __builtin_sqrtf(__mc_dot(v, v));
  return __mc_map<T>([=](T x) { return T(float(x) * scale); }, v);
}
template <typename A, typename B, typename V = __mc_vec_t<A, B>, enable_if_t<__mc_shape<V>::dim == 3, bool> = true>
constexpr V cross(A l, B r) {
  V a = l, b = r;
  return V(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
// n turned so that it faces against i.
template <typename A, typename B, typename C, typename V = __mc_vec_t<A, B, C>>
constexpr V faceforward(A n, B i, C reference) {
  return __mc_dot(V(reference), V(i)) < 0 ? V(n) : -V(n);
}
template <typename A, typename B, typename V = __mc_vec_t<A, B>>
constexpr V reflect(A i, B n) {
  typedef typename V::__mc_element T;
  return V(i) - V(n) * V(T(T(2) * metal::dot(V(n), V(i))));
}
template <typename A, typename B, typename V = __mc_vec_t<A, B>>
constexpr V refract(A i, B n, typename V::__mc_element eta) {
  typedef typename V::__mc_element T;
  float e = float(eta), d = float(__mc_dot(V(n), V(i))), k = 1.0f - e * e * (1.0f - d * d);
  return k < 0.0f ? V(T(0)) : V(i) * V(eta) - V(n) * V(T(e * d + __builtin_sqrtf(k)));
}

#define __MC_SAME_IN(space)       \
  namespace space {               \
  using metal::cross;             \
  using metal::distance;          \
  using metal::distance_squared;  \
  using metal::dot;               \
  using metal::faceforward;       \
  using metal::length;            \
  using metal::length_squared;    \
  using metal::normalize;         \
  using metal::reflect;           \
  using metal::refract;           \
  }
__MC_SAME_IN(fast)
__MC_SAME_IN(precise)
#undef __MC_SAME_IN

}  // namespace metal

__mc_end

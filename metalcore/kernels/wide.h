// One value or a vector of V: a kernel's body is written once for both.
// Memory holds T (float, half, bfloat), registers hold float.
#pragma once
#include <metal_stdlib>
using namespace metal;

template <typename T, uint V>
struct Wide {
  using type = vec<T, V>;
};
template <typename T>
struct Wide<T, 1> {
  using type = T;
};
template <typename T, uint V>
using wide = typename Wide<T, V>::type;

// In memory V elements lie anywhere: an array may begin inside a vector, and its address is not always known.
template <typename T, uint V>
struct InMemory {
  using type = packed_vec<T, V>;
};
template <typename T>
struct InMemory<T, 1> {
  using type = T;
};
template <typename T, uint V>
using in_memory = typename InMemory<T, V>::type;

// i counts in steps of V.
template <uint V, typename T>
inline wide<float, V> load(device const T* from, ulong i) {
  return wide<float, V>(wide<T, V>(((device const in_memory<T, V>*)from)[i]));
}

template <uint V, typename T>
inline void store(device T* to, ulong i, wide<float, V> value) {
  ((device in_memory<T, V>*)to)[i] = in_memory<T, V>(wide<T, V>(value));
}

inline float total(float x) { return x; }
inline float total(float2 x) { return x.x + x.y; }
inline float total(float4 x) { return (x.x + x.y) + (x.z + x.w); }
inline float largest(float x) { return x; }
inline float largest(float2 x) { return max(x.x, x.y); }
inline float largest(float4 x) { return max(max(x.x, x.y), max(x.z, x.w)); }

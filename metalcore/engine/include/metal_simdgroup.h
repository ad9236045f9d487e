// Functions across the 32 lanes of a simdgroup. Types as in Metal: 8- to 32-bit integers, half, float, bfloat and vectors of them.
// 64-bit and bool shuffles are absent on purpose: sources define those themselves.
#pragma once

#include "externals.h"
#include "metal_as_type.h"
#include "metal_type_traits.h"

__mc_begin

#ifdef METALCORE_DOUBLE
// A float of 8 bytes moves as two words.
struct __mc_two_words {
  uint low, high;
};
#define __MC_TWO_WORDS(name)                                         \
  template <typename... A>                                           \
  inline __mc_two_words __mc_##name(__mc_two_words v, A... a) {      \
    return {__mc_##name(v.low, a...), __mc_##name(v.high, a...)};    \
  }
#define __MC_FILL_TWO_WORDS(name)                                                                              \
  inline __mc_two_words __mc_##name(__mc_two_words v, __mc_two_words fill, uint delta, uint modulo) {          \
    return {__mc_##name(v.low, fill.low, delta, modulo), __mc_##name(v.high, fill.high, delta, modulo)};       \
  }
__MC_TWO_WORDS(simd_shuffle)
__MC_TWO_WORDS(simd_take)
__MC_TWO_WORDS(simd_shuffle_xor)
__MC_TWO_WORDS(simd_shuffle_up)
__MC_TWO_WORDS(simd_shuffle_down)
__MC_TWO_WORDS(simd_shuffle_rotate_up)
__MC_TWO_WORDS(simd_shuffle_rotate_down)
__MC_TWO_WORDS(simd_broadcast)
__MC_TWO_WORDS(simd_broadcast_first)
#else
#define __MC_TWO_WORDS(name)
#define __MC_FILL_TWO_WORDS(name)
#endif

namespace metal {

// Any value of up to 32 bits as a word and back.
template <typename T>
constexpr uint __mc_pack_word(T v) {
  if constexpr (sizeof(T) == 4)
    return __builtin_bit_cast(uint, v);
  else if constexpr (sizeof(T) == 2)
    return __builtin_bit_cast(ushort, v);
  else
    return __builtin_bit_cast(uchar, v);
}
template <typename T>
constexpr T __mc_unpack_word(uint w) {
  if constexpr (sizeof(T) == 4)
    return __builtin_bit_cast(T, w);
  else if constexpr (sizeof(T) == 2)
    return __builtin_bit_cast(T, ushort(w));
  else
    return __builtin_bit_cast(T, uchar(w));
}

#ifdef METALCORE_DOUBLE
constexpr __mc_two_words __mc_pack_word(float v) {
  ulong bits = __builtin_bit_cast(ulong, v);
  return {uint(bits), uint(bits >> 32)};
}
template <typename T>
constexpr T __mc_unpack_word(__mc_two_words w) {
  return __builtin_bit_cast(T, ulong(w.high) << 32 | w.low);
}
#endif

// What a vector's element may be.
template <typename T>
constexpr bool __mc_simd_element = (__is_integral(T) && !__is_same(T, bool) && sizeof(T) <= 4) || __is_same(T, half) ||
                                   __is_same(T, float) || __is_same(T, bfloat);
template <typename T>
using __mc_simd_vector = enable_if_t<__mc_simd_element<T>, bool>;
template <typename T>
using __mc_simd_bfloat = enable_if_t<__is_same(T, bfloat), bool>;

// Scalars are plain overloads; bfloat comes as a template, because MLX defines overloads for it.

// Moves: name(value, lane or distance), through a word.
#define __MC_MOVE_OF(name, T) \
  inline T name(T v, ushort n) { return __mc_unpack_word<T>(__mc_##name(__mc_pack_word(v), n)); }
#define __MC_MOVE(name)                                                                            \
  __MC_MOVE_OF(name, char)                                                                         \
  __MC_MOVE_OF(name, int8_t)                                                                       \
  __MC_MOVE_OF(name, uchar)                                                                        \
  __MC_MOVE_OF(name, short)                                                                        \
  __MC_MOVE_OF(name, ushort)                                                                       \
  __MC_MOVE_OF(name, int)                                                                          \
  __MC_MOVE_OF(name, uint)                                                                         \
  __MC_MOVE_OF(name, half)                                                                         \
  __MC_MOVE_OF(name, float)                                                                        \
  template <typename T, __mc_simd_bfloat<T> = true>                                                \
  inline T name(T v, ushort n) {                                                                   \
    return __mc_unpack_word<T>(__mc_##name(__mc_pack_word(v), n));                                 \
  }                                                                                                \
  template <typename T, int N, __mc_simd_vector<T> = true>                                         \
  inline vec<T, N> name(vec<T, N> v, ushort n) {                                                   \
    return __mc_map<T>([=](T x) { return __mc_unpack_word<T>(__mc_##name(__mc_pack_word(x), n)); }, v); \
  }
__MC_MOVE(simd_shuffle)
__MC_MOVE(simd_shuffle_xor)
__MC_MOVE(simd_shuffle_up)
__MC_MOVE(simd_shuffle_down)
__MC_MOVE(simd_shuffle_rotate_up)
__MC_MOVE(simd_shuffle_rotate_down)
__MC_MOVE(simd_broadcast)

inline uint __mc_simd_shuffle_and_fill_up(uint v, uint fill, uint delta, uint modulo) { return __mc_simd_fill_up(v, fill, delta, modulo); }
inline uint __mc_simd_shuffle_and_fill_down(uint v, uint fill, uint delta, uint modulo) { return __mc_simd_fill_down(v, fill, delta, modulo); }

__MC_FILL_TWO_WORDS(simd_shuffle_and_fill_up)
__MC_FILL_TWO_WORDS(simd_shuffle_and_fill_down)

#define __MC_FILL_OF(name, width, T)                                                                         \
  inline T name(T v, T fill, ushort n, ushort modulo = width) {                                              \
    return __mc_unpack_word<T>(__mc_##name(__mc_pack_word(v), __mc_pack_word(fill), n, modulo));             \
  }
#define __MC_FILL(name, width)                                                                               \
  __MC_FILL_OF(name, width, char)                                                                            \
  __MC_FILL_OF(name, width, int8_t)                                                                          \
  __MC_FILL_OF(name, width, uchar)                                                                           \
  __MC_FILL_OF(name, width, short)                                                                           \
  __MC_FILL_OF(name, width, ushort)                                                                          \
  __MC_FILL_OF(name, width, int)                                                                             \
  __MC_FILL_OF(name, width, uint)                                                                            \
  __MC_FILL_OF(name, width, half)                                                                            \
  __MC_FILL_OF(name, width, float)                                                                           \
  template <typename T, __mc_simd_bfloat<T> = true>                                                          \
  inline T name(T v, T fill, ushort n, ushort modulo = width) {                                              \
    return __mc_unpack_word<T>(__mc_##name(__mc_pack_word(v), __mc_pack_word(fill), n, modulo));             \
  }                                                                                                          \
  template <typename T, int N, __mc_simd_vector<T> = true>                                                   \
  inline vec<T, N> name(vec<T, N> v, vec<T, N> fill, ushort n, ushort modulo = width) {                      \
    return __mc_map<T>(                                                                                      \
        [=](T x, T f) { return __mc_unpack_word<T>(__mc_##name(__mc_pack_word(x), __mc_pack_word(f), n, modulo)); }, v, fill); \
  }
__MC_FILL(simd_shuffle_and_fill_up, 32)
__MC_FILL(simd_shuffle_and_fill_down, 32)

// A value of the first active lane, in all.
template <typename T, enable_if_t<__mc_simd_element<T> || __is_same(T, bool), bool> = true>
inline T simd_broadcast_first(T v) {
  return __mc_unpack_word<T>(__mc_simd_broadcast_first(__mc_pack_word(v)));
}
template <typename T, int N, __mc_simd_vector<T> = true>
inline vec<T, N> simd_broadcast_first(vec<T, N> v) {
  return __mc_map<T>([](T x) { return __mc_unpack_word<T>(__mc_simd_broadcast_first(__mc_pack_word(x))); }, v);
}

// Reductions. Narrow integers wrap from 32 bits; half and bfloat are reduced in float and rounded once.
#define __MC_REDUCE(name)                                                                         \
  inline float name(float v) { return __MC_FLOAT(__mc_##name)(v); }                               \
  inline half name(half v) { return half(__MC_FLOAT(__mc_##name)(float(v))); }                    \
  inline int name(int v) { return __mc_##name##_i32(v); }                                         \
  inline uint name(uint v) { return __mc_##name##_u32(v); }                                       \
  inline short name(short v) { return short(__mc_##name##_i32(v)); }                              \
  inline ushort name(ushort v) { return ushort(__mc_##name##_u32(v)); }                           \
  inline char name(char v) { return char(__mc_##name##_i32(v)); }                                 \
  inline int8_t name(int8_t v) { return int8_t(__mc_##name##_i32(v)); }                           \
  inline uchar name(uchar v) { return uchar(__mc_##name##_u32(v)); }                              \
  template <typename T, __mc_simd_bfloat<T> = true>                                               \
  inline T name(T v) {                                                                            \
    return T(__MC_FLOAT(__mc_##name)(float(v)));                                                  \
  }                                                                                               \
  template <typename T, int N, __mc_simd_vector<T> = true>                                        \
  inline vec<T, N> name(vec<T, N> v) {                                                            \
    return __mc_map<T>([](T x) { return metal::name(x); }, v);                                    \
  }
__MC_REDUCE(simd_sum)
__MC_REDUCE(simd_product)
__MC_REDUCE(simd_min)
__MC_REDUCE(simd_max)
__MC_REDUCE(simd_prefix_inclusive_sum)
__MC_REDUCE(simd_prefix_exclusive_sum)
__MC_REDUCE(simd_prefix_inclusive_product)
__MC_REDUCE(simd_prefix_exclusive_product)
#undef __MC_REDUCE

#define __MC_REDUCE_BITS_OF(name, T) \
  inline T name(T v) { return T(__mc_##name##_u32(uint(v))); }
#define __MC_REDUCE_BITS(name)                                                                    \
  __MC_REDUCE_BITS_OF(name, char)                                                                 \
  __MC_REDUCE_BITS_OF(name, int8_t)                                                               \
  __MC_REDUCE_BITS_OF(name, uchar)                                                                \
  __MC_REDUCE_BITS_OF(name, short)                                                                \
  __MC_REDUCE_BITS_OF(name, ushort)                                                               \
  __MC_REDUCE_BITS_OF(name, int)                                                                  \
  __MC_REDUCE_BITS_OF(name, uint)                                                                 \
  template <typename T, int N, enable_if_t<__is_integral(T) && __mc_simd_element<T>, bool> = true> \
  inline vec<T, N> name(vec<T, N> v) {                                                            \
    return __mc_map<T>([](T x) { return metal::name(x); }, v);                                    \
  }
__MC_REDUCE_BITS(simd_and)
__MC_REDUCE_BITS(simd_or)
__MC_REDUCE_BITS(simd_xor)

// Votes. Bit i of a vote is lane i; lanes that do not take part are 0.
class simd_vote {
 public:
  typedef ulong vote_t;
  simd_vote() = default;
  explicit constexpr simd_vote(vote_t v) : __mc_votes(v) {}
  explicit constexpr operator vote_t() const { return __mc_votes; }
  bool all() const {
    vote_t active = __mc_simd_active_threads_mask();
    return (__mc_votes & active) == active;
  }
  bool any() const { return __mc_votes != 0; }

 private:
  vote_t __mc_votes;
};
inline simd_vote simd_ballot(bool v) { return simd_vote(__mc_simd_ballot(v)); }
inline simd_vote simd_active_threads_mask() { return simd_vote(__mc_simd_active_threads_mask()); }
inline bool simd_all(bool v) { return __mc_simd_all(v) != 0; }
inline bool simd_any(bool v) { return __mc_simd_any(v) != 0; }
inline bool simd_is_first() { return __mc_simd_is_first() != 0; }
constexpr bool simd_is_helper_thread() { return false; }

}  // namespace metal

// The builtins behind them, which MLX's bfloat overloads call by name.
#define __MC_BUILTIN(name)                             \
  template <typename T, typename... A>                 \
  inline T __metal_##name(T v, A... a) {               \
    return metal::name(v, a...);                       \
  }
__MC_BUILTIN(simd_broadcast)
__MC_BUILTIN(simd_shuffle)
__MC_BUILTIN(simd_shuffle_and_fill_down)
__MC_BUILTIN(simd_shuffle_and_fill_up)
__MC_BUILTIN(simd_shuffle_down)
__MC_BUILTIN(simd_shuffle_up)
__MC_BUILTIN(simd_shuffle_rotate_down)
__MC_BUILTIN(simd_shuffle_rotate_up)
__MC_BUILTIN(simd_shuffle_xor)
__MC_BUILTIN(simd_max)
__MC_BUILTIN(simd_min)
__MC_BUILTIN(simd_sum)
__MC_BUILTIN(simd_product)
__MC_BUILTIN(simd_prefix_exclusive_product)
__MC_BUILTIN(simd_prefix_exclusive_sum)
__MC_BUILTIN(simd_prefix_inclusive_product)
__MC_BUILTIN(simd_prefix_inclusive_sum)
#undef __MC_BUILTIN
#ifndef METALCORE_DOUBLE
inline float __metal_simd_xor(float v) { return __builtin_bit_cast(float, __mc_simd_xor_u32(__builtin_bit_cast(uint, v))); }
#endif
template <typename T>
inline T __metal_get_simdgroup_size(T) {
  return T(32);  // a constant, so that a shuffle by it is a fixed permutation
}
template <typename T>
inline T __metal_get_thread_index_in_simdgroup(T) {
  return T(__mc_thread_index_in_simdgroup(0));
}

__mc_end

// Functions across the four lanes of a quadgroup: lanes 4q to 4q + 3 of a simdgroup. Inactive lanes do not contribute.
#pragma once

#include "metal_common.h"
#include "metal_simdgroup.h"

__mc_begin

namespace metal {

inline uint __mc_quad_base() { return __mc_thread_index_in_simdgroup(0) & ~3u; }
inline uint __mc_quad_lane() { return __mc_thread_index_in_simdgroup(0) & 3u; }

// Moves of a word. A lane that would read outside its quadgroup keeps its own value.
inline uint __mc_quad_shuffle(uint v, uint lane) { return __mc_simd_shuffle(v, __mc_quad_base() | (lane & 3)); }
inline uint __mc_quad_take(uint v, uint lane) { return __mc_simd_take(v, __mc_quad_base() | (lane & 3)); }
inline uint __mc_quad_broadcast(uint v, uint lane) { return __mc_quad_shuffle(v, lane); }
inline uint __mc_quad_shuffle_xor(uint v, uint mask) { return __mc_simd_shuffle_xor(v, mask & 3); }
inline uint __mc_quad_shuffle_up(uint v, uint delta) {
  uint lane = __mc_quad_lane(), from = lane >= delta ? lane - delta : lane;
  return __mc_quad_shuffle(v, from);
}
inline uint __mc_quad_shuffle_down(uint v, uint delta) {
  uint lane = __mc_quad_lane(), from = lane + delta < 4 ? lane + delta : lane;
  return __mc_quad_shuffle(v, from);
}
inline uint __mc_quad_shuffle_rotate_up(uint v, uint delta) { return __mc_quad_shuffle(v, __mc_quad_lane() - delta); }
inline uint __mc_quad_shuffle_rotate_down(uint v, uint delta) { return __mc_quad_shuffle(v, __mc_quad_lane() + delta); }
// Within groups of `modulo` lanes, what comes from outside is taken from `fill`, in the order a longer row would have it.
inline uint __mc_quad_shuffle_and_fill_up(uint v, uint fill, uint delta, uint modulo) {
  uint lane = __mc_quad_lane(), place = lane & (modulo - 1), first = lane - place;
  uint outside = __mc_quad_take(fill, first + ((place - delta) & (modulo - 1)));
  uint inside = __mc_quad_take(v, lane - delta);
  return place < delta ? outside : inside;
}
inline uint __mc_quad_shuffle_and_fill_down(uint v, uint fill, uint delta, uint modulo) {
  uint lane = __mc_quad_lane(), place = lane & (modulo - 1), first = lane - place;
  uint outside = __mc_quad_take(fill, first + ((place + delta) & (modulo - 1)));
  uint inside = __mc_quad_take(v, lane + delta);
  return place + delta >= modulo ? outside : inside;
}

__MC_TWO_WORDS(quad_shuffle)
__MC_TWO_WORDS(quad_take)
__MC_TWO_WORDS(quad_broadcast)
__MC_TWO_WORDS(quad_shuffle_xor)
__MC_TWO_WORDS(quad_shuffle_up)
__MC_TWO_WORDS(quad_shuffle_down)
__MC_TWO_WORDS(quad_shuffle_rotate_up)
__MC_TWO_WORDS(quad_shuffle_rotate_down)
__MC_FILL_TWO_WORDS(quad_shuffle_and_fill_up)
__MC_FILL_TWO_WORDS(quad_shuffle_and_fill_down)
__MC_MOVE(quad_shuffle)
__MC_MOVE(quad_shuffle_xor)
__MC_MOVE(quad_shuffle_up)
__MC_MOVE(quad_shuffle_down)
__MC_MOVE(quad_shuffle_rotate_up)
__MC_MOVE(quad_shuffle_rotate_down)
__MC_MOVE(quad_broadcast)
__MC_FILL(quad_shuffle_and_fill_up, 4)
__MC_FILL(quad_shuffle_and_fill_down, 4)

// The active lanes of this quadgroup as bits 0 to 3.
inline uint __mc_quad_active() { return uint(__mc_simd_active_threads_mask() >> __mc_quad_base()) & 15; }

// op over the lanes of `who`, starting from the identity; S is the type that sums are kept in.
template <typename S, typename F>
inline S __mc_quad_fold(S v, S identity, uint who, F op) {
  auto w = __mc_pack_word(v);
  // All shuffles first: every lane must take part in each.
  S a = __mc_unpack_word<S>(__mc_quad_take(w, 0)), b = __mc_unpack_word<S>(__mc_quad_take(w, 1));
  S c = __mc_unpack_word<S>(__mc_quad_take(w, 2)), d = __mc_unpack_word<S>(__mc_quad_take(w, 3));
  a = who & 1 ? a : identity;
  b = who & 2 ? b : identity;
  c = who & 4 ? c : identity;
  d = who & 8 ? d : identity;
  return op(op(op(a, b), c), d);
}
template <typename T>
struct __mc_quad_sum_type {
  typedef T type;
};
template <>
struct __mc_quad_sum_type<half> {
  typedef float type;
};
template <>
struct __mc_quad_sum_type<bfloat> {
  typedef float type;
};
// The value that leaves any other unchanged in min (Largest) or max.
template <typename S, bool Largest>
constexpr S __mc_extreme() {
  if constexpr (__is_same(S, float))
    return Largest ? __builtin_inff() : -__builtin_inff();
  else if constexpr (S(-1) < S(0))
    return Largest ? S((1ul << (sizeof(S) * 8 - 1)) - 1) : S(1ul << (sizeof(S) * 8 - 1));
  else
    return Largest ? S(-1) : S(0);
}
// The lowest bits up to this lane, with or without itself.
inline uint __mc_quad_upto() { return (2u << __mc_quad_lane()) - 1; }
inline uint __mc_quad_before() { return (1u << __mc_quad_lane()) - 1; }

#define __MC_QUAD(name, identity, who, expression)                                                            \
  template <typename T, enable_if_t<__mc_simd_element<T>, bool> = true>                                       \
  inline T name(T v) {                                                                                        \
    typedef typename __mc_quad_sum_type<T>::type S;                                                           \
    return T(__mc_quad_fold<S>(S(v), identity, who, [](S a, S b) { return S(expression); }));                 \
  }                                                                                                           \
  template <typename T, int N, __mc_simd_vector<T> = true>                                                    \
  inline vec<T, N> name(vec<T, N> v) {                                                                        \
    return __mc_map<T>([](T x) { return metal::name(x); }, v);                                                \
  }
__MC_QUAD(quad_sum, S(0), __mc_quad_active(), a + b)
__MC_QUAD(quad_product, S(1), __mc_quad_active(), a* b)
__MC_QUAD(quad_min, (__mc_extreme<S, true>()), __mc_quad_active(), __mc_min(a, b))
__MC_QUAD(quad_max, (__mc_extreme<S, false>()), __mc_quad_active(), __mc_max(a, b))
__MC_QUAD(quad_and, S(-1), __mc_quad_active(), a& b)
__MC_QUAD(quad_or, S(0), __mc_quad_active(), a | b)
__MC_QUAD(quad_xor, S(0), __mc_quad_active(), a ^ b)
__MC_QUAD(quad_prefix_inclusive_sum, S(0), __mc_quad_active() & __mc_quad_upto(), a + b)
__MC_QUAD(quad_prefix_exclusive_sum, S(0), __mc_quad_active() & __mc_quad_before(), a + b)
__MC_QUAD(quad_prefix_inclusive_product, S(1), __mc_quad_active() & __mc_quad_upto(), a* b)
__MC_QUAD(quad_prefix_exclusive_product, S(1), __mc_quad_active() & __mc_quad_before(), a* b)
#undef __MC_QUAD

class quad_vote {
 public:
  typedef uint vote_t;
  quad_vote() = default;
  explicit constexpr quad_vote(vote_t v) : __mc_votes(v) {}
  explicit constexpr operator vote_t() const { return __mc_votes; }
  bool all() const {
    vote_t active = __mc_quad_active();
    return (__mc_votes & active) == active;
  }
  bool any() const { return __mc_votes != 0; }

 private:
  vote_t __mc_votes;
};
inline quad_vote quad_ballot(bool v) { return quad_vote(uint(__mc_simd_ballot(v) >> __mc_quad_base()) & 15); }
inline quad_vote quad_active_threads_mask() { return quad_vote(__mc_quad_active()); }
inline bool quad_all(bool v) { return quad_ballot(v).all(); }
inline bool quad_any(bool v) { return quad_ballot(v).any(); }
inline bool quad_is_first() { return (__mc_quad_active() & __mc_quad_before()) == 0; }
constexpr bool quad_is_helper_thread() { return false; }

// A value of the first active lane of the quadgroup.
template <typename T, enable_if_t<__mc_simd_element<T>, bool> = true>
inline T quad_broadcast_first(T v) {
  return __mc_unpack_word<T>(__mc_quad_shuffle(__mc_pack_word(v), uint(__builtin_ctz(__mc_quad_active() | 16))));
}
template <typename T, int N, __mc_simd_vector<T> = true>
inline vec<T, N> quad_broadcast_first(vec<T, N> v) {
  return __mc_map<T>([](T x) { return metal::quad_broadcast_first(x); }, v);
}

}  // namespace metal

__mc_end

#undef __MC_MOVE
#undef __MC_MOVE_OF
#undef __MC_TWO_WORDS
#undef __MC_FILL_TWO_WORDS
#undef __MC_FILL
#undef __MC_FILL_OF
#undef __MC_REDUCE_BITS
#undef __MC_REDUCE_BITS_OF

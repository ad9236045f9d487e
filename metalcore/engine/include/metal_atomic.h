// Atomics on device and threadgroup memory. Read-modify-write is relaxed in itself; a stronger order adds fences around it.
#pragma once

#include "metal_compute.h"
#include "metal_type_traits.h"

__mc_begin

namespace metal {

// The word that holds a T: a bool takes four bytes, as in Metal.
template <typename T>
struct __mc_atomic_word {
  typedef T type;
};
template <>
struct __mc_atomic_word<bool> {
  typedef uint type;
};

template <typename T>
struct atomic {
  typedef typename __mc_atomic_word<T>::type __mc_word;
  __mc_word __mc_value;

  atomic() = default;
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
};
template <typename T>
using _atomic = atomic<T>;

inline void __mc_before(memory_order order) {
  if (order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst) __mc_fence(3, order, 3);
}
inline void __mc_after(memory_order order) {
  if (order == memory_order_acquire || order == memory_order_acq_rel || order == memory_order_seq_cst) __mc_fence(3, order, 3);
}
template <typename T>
inline typename atomic<T>::__mc_word* __mc_word_of(const volatile atomic<T>* p) {
  return const_cast<typename atomic<T>::__mc_word*>(&p->__mc_value);
}

#define __MC_FETCH(name)                                                                                     \
  template <typename T>                                                                                      \
  inline T __mc_atomic_##name(const volatile atomic<T>* p, T v, memory_order order) {                        \
    typedef typename atomic<T>::__mc_word W;                                                                 \
    __mc_before(order);                                                                                      \
    W old = __atomic_##name(__mc_word_of(p), W(v), __ATOMIC_RELAXED);                                        \
    __mc_after(order);                                                                                       \
    return T(old);                                                                                           \
  }
__MC_FETCH(fetch_add)
__MC_FETCH(fetch_sub)
__MC_FETCH(fetch_and)
__MC_FETCH(fetch_or)
__MC_FETCH(fetch_xor)
__MC_FETCH(fetch_min)
__MC_FETCH(fetch_max)
#undef __MC_FETCH
template <typename T>
inline T __mc_atomic_exchange(const volatile atomic<T>* p, T v, memory_order order) {
  typename atomic<T>::__mc_word in = v, old;
  __mc_before(order);
  __atomic_exchange(__mc_word_of(p), &in, &old, __ATOMIC_RELAXED);
  __mc_after(order);
  return T(old);
}
template <typename T>
inline T __mc_atomic_load(const volatile atomic<T>* p, memory_order order) {
  typename atomic<T>::__mc_word r;
  __atomic_load(__mc_word_of(p), &r, __ATOMIC_RELAXED);
  __mc_after(order);
  return T(r);
}
template <typename T>
inline void __mc_atomic_store(const volatile atomic<T>* p, T v, memory_order order) {
  typename atomic<T>::__mc_word in = v;
  __mc_before(order);
  __atomic_store(__mc_word_of(p), &in, __ATOMIC_RELAXED);
}
template <typename T>
inline bool __mc_atomic_compare_exchange(const volatile atomic<T>* p, T* expected, T v, memory_order order) {
  typename atomic<T>::__mc_word in = v, old = *expected;
  __mc_before(order);
  bool done = __atomic_compare_exchange(__mc_word_of(p), &old, &in, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  __mc_after(order);
  *expected = T(old);
  return done;
}

// One set per address space: a named space does not take part in deduction from a plain pointer.
#define __MC_ATOMICS_OF(space)                                                                                                 \
  template <typename T>                                                                                                        \
  inline T atomic_load_explicit(const volatile space atomic<T>* p, memory_order order) {                                       \
    return __mc_atomic_load<T>(p, order);                                                                                      \
  }                                                                                                                            \
  template <typename T>                                                                                                        \
  inline void atomic_store_explicit(volatile space atomic<T>* p, typename type_identity<T>::type v, memory_order order) {      \
    __mc_atomic_store<T>(p, v, order);                                                                                         \
  }                                                                                                                            \
  template <typename T>                                                                                                        \
  inline T atomic_exchange_explicit(volatile space atomic<T>* p, typename type_identity<T>::type v, memory_order order) {      \
    return __mc_atomic_exchange<T>(p, v, order);                                                                               \
  }                                                                                                                            \
  template <typename T>                                                                                                        \
  inline bool atomic_compare_exchange_weak_explicit(volatile space atomic<T>* p, typename type_identity<T>::type* expected,    \
                                                    typename type_identity<T>::type v, memory_order order, memory_order) {     \
    return __mc_atomic_compare_exchange<T>(p, expected, v, order);                                                             \
  }                                                                                                                            \
  __MC_FETCH_OF(space, fetch_add)                                                                                              \
  __MC_FETCH_OF(space, fetch_sub)                                                                                              \
  __MC_FETCH_OF(space, fetch_and)                                                                                              \
  __MC_FETCH_OF(space, fetch_or)                                                                                               \
  __MC_FETCH_OF(space, fetch_xor)                                                                                              \
  __MC_FETCH_OF(space, fetch_min)                                                                                              \
  __MC_FETCH_OF(space, fetch_max)                                                                                              \
  template <typename T>                                                                                                        \
  inline void atomic_min_explicit(volatile space atomic<T>* p, typename type_identity<T>::type v, memory_order order) {        \
    __mc_atomic_fetch_min<T>(p, v, order);                                                                                     \
  }                                                                                                                            \
  template <typename T>                                                                                                        \
  inline void atomic_max_explicit(volatile space atomic<T>* p, typename type_identity<T>::type v, memory_order order) {        \
    __mc_atomic_fetch_max<T>(p, v, order);                                                                                     \
  }
#define __MC_FETCH_OF(space, name)                                                                                             \
  template <typename T>                                                                                                        \
  inline T atomic_##name##_explicit(volatile space atomic<T>* p, typename type_identity<T>::type v, memory_order order) {      \
    return __mc_atomic_##name<T>(p, v, order);                                                                                 \
  }
__MC_ATOMICS_OF(__mc_device)
__MC_ATOMICS_OF(__mc_threadgroup)
#undef __MC_ATOMICS_OF
#undef __MC_FETCH_OF

}  // namespace metal

__mc_end

typedef metal::atomic<int> atomic_int;
typedef metal::atomic<uint> atomic_uint;
typedef metal::atomic<bool> atomic_bool;
typedef metal::atomic<float> atomic_float;
typedef metal::atomic<long> atomic_long;
typedef metal::atomic<ulong> atomic_ulong;
namespace metal {
using ::atomic_bool;
using ::atomic_float;
using ::atomic_int;
using ::atomic_long;
using ::atomic_uint;
using ::atomic_ulong;
}  // namespace metal

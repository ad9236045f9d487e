// Barriers and fences.
#pragma once

#include "externals.h"

__mc_begin

namespace metal {

// The numbers are bits of the `flags` argument of the externals.
enum class mem_flags {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_device_and_threadgroup = 3,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8,
  mem_object_data = 16
};
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }
constexpr mem_flags operator&(mem_flags a, mem_flags b) { return mem_flags(uint(a) & uint(b)); }

enum memory_order {
  memory_order_relaxed = __ATOMIC_RELAXED,
  memory_order_acquire = __ATOMIC_ACQUIRE,
  memory_order_release = __ATOMIC_RELEASE,
  memory_order_acq_rel = __ATOMIC_ACQ_REL,
  memory_order_seq_cst = __ATOMIC_SEQ_CST
};
enum thread_scope { thread_scope_thread = 0, thread_scope_simdgroup = 1, thread_scope_threadgroup = 2, thread_scope_device = 3 };
typedef thread_scope memory_scope;

inline void threadgroup_barrier(mem_flags flags) { __mc_threadgroup_barrier(uint(flags)); }
inline void threadgroup_barrier(mem_flags flags, thread_scope) { __mc_threadgroup_barrier(uint(flags)); }
inline void simdgroup_barrier(mem_flags flags) { __mc_simdgroup_barrier(uint(flags)); }
inline void simdgroup_barrier(mem_flags flags, thread_scope) { __mc_simdgroup_barrier(uint(flags)); }
inline void atomic_thread_fence(mem_flags flags, memory_order order, thread_scope scope = thread_scope_device) {
  __mc_fence(uint(flags), uint(order), uint(scope));
}

}  // namespace metal

__mc_end

// The calls that the lockstep pass lowers; docs/design/contracts.md says what each one means.
#pragma once

#include "metal_types.h"

#ifndef METALCORE_DOUBLE
struct __mc_pair_f32 {
  float e0, e1;
};
#endif
struct __mc_pair_u32 {
  unsigned e0, e1;
};

__mc_fixed uint __mc_thread_index_in_simdgroup(uint dim);
__mc_fixed uint __mc_threads_per_simdgroup(uint dim);

// A line that a thread says, and behind it the values in it: metal_logging.h. Two calls stay two: each has its place.
__mc_external __attribute__((nomerge)) void __mc_say(const char* what, uint kind, ulong value);

__mc_external void __mc_threadgroup_barrier(uint flags);
__mc_external void __mc_simdgroup_barrier(uint flags);
__mc_external void __mc_fence(uint flags, uint order, uint scope);

#ifdef METALCORE_DOUBLE
#define __MC_FLOAT(name) name##_f64
#else
#define __MC_FLOAT(name) name##_f32
#endif
#define __MC_REDUCTION(op)                                    \
  __mc_external float __MC_FLOAT(__mc_simd_##op)(float);      \
  __mc_external int __mc_simd_##op##_i32(int);     \
  __mc_external uint __mc_simd_##op##_u32(uint);
__MC_REDUCTION(sum)
__MC_REDUCTION(product)
__MC_REDUCTION(min)
__MC_REDUCTION(max)
__MC_REDUCTION(prefix_inclusive_sum)
__MC_REDUCTION(prefix_exclusive_sum)
__MC_REDUCTION(prefix_inclusive_product)
__MC_REDUCTION(prefix_exclusive_product)
#undef __MC_REDUCTION
__mc_external uint __mc_simd_and_u32(uint);
__mc_external uint __mc_simd_or_u32(uint);
__mc_external uint __mc_simd_xor_u32(uint);

__mc_external uint __mc_simd_shuffle(uint v, uint lane);
__mc_external uint __mc_simd_take(uint v, uint lane);  // a shuffle whose result may be dropped: idle lanes may be read
__mc_external uint __mc_simd_shuffle_xor(uint v, uint mask);
__mc_external uint __mc_simd_shuffle_up(uint v, uint delta);
__mc_external uint __mc_simd_shuffle_down(uint v, uint delta);
__mc_external uint __mc_simd_shuffle_rotate_up(uint v, uint delta);
__mc_external uint __mc_simd_shuffle_rotate_down(uint v, uint delta);
__mc_external uint __mc_simd_fill_up(uint v, uint fill, uint delta, uint modulo);
__mc_external uint __mc_simd_fill_down(uint v, uint fill, uint delta, uint modulo);
__mc_external uint __mc_simd_broadcast(uint v, uint lane);
__mc_external uint __mc_simd_broadcast_first(uint v);
__mc_external ulong __mc_simd_ballot(uint predicate);
__mc_external ulong __mc_simd_active_threads_mask();
__mc_external uint __mc_simd_any(uint predicate);
__mc_external uint __mc_simd_all(uint predicate);
__mc_external uint __mc_simd_is_first();

#ifndef METALCORE_DOUBLE
__mc_external __mc_pair_f32 __mc_simdgroup_mma_f32(float a0, float a1, float b0, float b1, float c0, float c1);
__mc_external __mc_pair_u32 __mc_simdgroup_load_b32(const void* p, ulong stride, uint transpose);
__mc_external __mc_pair_u32 __mc_simdgroup_load_b16(const void* p, ulong stride, uint transpose);
__mc_external void __mc_simdgroup_store_b32(void* p, ulong stride, uint transpose, uint e0, uint e1);
__mc_external void __mc_simdgroup_store_b16(void* p, ulong stride, uint transpose, uint e0, uint e1);
#endif

// Threadgroup memory holds what the last kernel left in it.
#include <metal_stdlib>
using namespace metal;

// The second stage reads 32 slots, one for each possible simdgroup; two were written.
// launch: threads=64 group_size=64 x=float32[64] y=float32[1]:0
kernel void slots_of_absent_simdgroups(
    constant bool& fixed, device const float* x, device float* y, uint t [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[32];
  float sum = simd_sum(x[t]);
  if (lane == 0) partial[group] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (group == 0) {
    float part = 0;
    if (!fixed || lane < 2) part = partial[lane];  // expect: uninitialised-threadgroup-memory thread 2
    part = simd_sum(part);
    if (lane == 0) y[0] = part;
  }
}

// A histogram whose bins nobody cleared.
// launch: threads=64 group_size=64 x=int32[64] y=int32[8]:0
kernel void bins_not_cleared(
    constant bool& fixed, device const int* x, device int* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup atomic_int bins[8];
  if (fixed && t < 8) atomic_store_explicit(&bins[t], 0, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&bins[x[t] % 8], 1, memory_order_relaxed);  // expect: uninitialised-threadgroup-memory
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t < 8) y[t] = atomic_load_explicit(&bins[t], memory_order_relaxed);
}

// The halo at the right edge is not loaded.
// launch: threads=32 group_size=32 x=float32[34] y=float32[32]:0
kernel void halo_not_loaded(
    constant bool& fixed, device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float tile[34];
  tile[t] = x[t];
  if (fixed && t < 2) tile[t + 32] = x[t + 32];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = tile[t] + tile[t + 1] + tile[t + 2];  // expect: uninitialised-threadgroup-memory thread 31
}

// from: KernelAbstractions.jl, review of a group reduction: the last group has few threads, and the tree adds slots that no thread filled
// launch: threads=68 group_size=64 x=float32[68] y=float32[2]:0
kernel void tree_over_a_partial_group(
    constant bool& fixed, device const float* x, device float* y, uint i [[thread_position_in_grid]],
    uint t [[thread_index_in_threadgroup]], uint size [[threads_per_threadgroup]],
    uint group [[threadgroup_position_in_grid]]) {
  threadgroup float s[64];
  if (fixed) {
    for (uint j = t; j < 64; j += size) s[j] = 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  s[t] = x[i];
  for (uint step = 32; step > 0; step >>= 1) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < step) s[t] += s[t + step];  // expect: uninitialised-threadgroup-memory
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t == 0) y[group] = s[0];
}

// from: aiter (HIP; the same selection in MSL): k is larger than the number of candidates, and top-k returns slots never written
// launch: threads=32 group_size=32 x=float32[32] y=float32[8]:0 k=8
kernel void top_k_slots(
    constant bool& fixed,
    device const float* x, device float* y, constant uint& k, uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float best[8];
  bool is_candidate = x[lane] > 27;
  uint place = simd_prefix_exclusive_sum(is_candidate ? 1u : 0u);
  if (fixed && lane < 8) best[lane] = -INFINITY;
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (is_candidate && place < 8) best[place] = x[lane];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (lane < k) y[lane] = best[lane];  // expect: uninitialised-threadgroup-memory thread 5
}

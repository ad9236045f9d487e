#include <metal_stdlib>
using namespace metal;

// Bins of a threadgroup are counted in threadgroup memory and added to the result once.
kernel void histogram(
    device const uint* x, device atomic_uint* bins, constant uint& n, constant uint& count,
    uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]],
    uint size [[threads_per_threadgroup]]) {
  threadgroup atomic_uint local[37];
  for (uint b = t; b < count; b += size) {
    atomic_store_explicit(&local[b], 0, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i < n) {
    atomic_fetch_add_explicit(&local[x[i]], 1, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint b = t; b < count; b += size) {
    uint found = atomic_load_explicit(&local[b], memory_order_relaxed);
    if (found > 0) atomic_fetch_add_explicit(&bins[b], found, memory_order_relaxed);
  }
}

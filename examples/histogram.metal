// How often each byte value occurs: counted in threadgroup memory first, then added to the result.
#include <metal_stdlib>
using namespace metal;

kernel void histogram(
    device const uchar* data [[buffer(0)]],
    device atomic_uint* bins [[buffer(1)]],
    constant uint& count [[buffer(2)]],
    uint gid [[thread_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint grid_size [[threads_per_grid]]) {
  threadgroup atomic_uint local[256];
  for (uint i = lid; i < 256; i += group_size) {
    atomic_store_explicit(&local[i], 0, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = gid; i < count; i += grid_size) {
    atomic_fetch_add_explicit(&local[data[i]], 1, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = lid; i < 256; i += group_size) {
    atomic_fetch_add_explicit(&bins[i], atomic_load_explicit(&local[i], memory_order_relaxed), memory_order_relaxed);
  }
}

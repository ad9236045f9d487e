// Several threads write the same value: the result is right on every GPU known, the program is not.
#include <metal_stdlib>
using namespace metal;

// Every thread announces the length.
// launch: threads=64 group_size=64 y=int32[64]:0 n=64
kernel void all_write_the_length(
    constant bool& fixed, device int* y, constant int& n, uint t [[thread_index_in_threadgroup]]) {
  threadgroup int length;
  if (!fixed || t == 0) length = n;  // expect: same-value-race
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = length - int(t);
}

// Whoever meets a negative number raises the flag.
// launch: threads=64 group_size=64 x=float32[64]:-1 flag=int32[1]:0
kernel void flag_in_device_memory(
    constant bool& fixed, device const float* x, device int* flag, uint i [[thread_position_in_grid]]) {
  if (x[i] >= 0) return;
  if (fixed) atomic_store_explicit((device atomic_int*)flag, 1, memory_order_relaxed);
  else flag[0] = 1;  // expect: same-value-race
}

// Each threadgroup sets the same element.
// launch: threadgroups=4 group_size=32 done=int32[1]:0
kernel void every_group_is_done(
    constant bool& fixed,
    device int* done, uint lane [[thread_index_in_simdgroup]], uint group [[threadgroup_position_in_grid]]) {
  if (lane == 0 && (!fixed || group == 0)) done[0] = 4;  // expect: same-value-race
}

// The lanes of one simdgroup store a value that is the same in all of them.
// launch: threads=32 group_size=32 x=float32[32] y=float32[1]:0
kernel void all_lanes_store_the_sum(
    constant bool& fixed, device const float* x, device float* y, uint lane [[thread_index_in_simdgroup]]) {
  float sum = simd_sum(x[lane]);
  if (!fixed || lane == 0) y[0] = sum;  // expect: same-value-race
}

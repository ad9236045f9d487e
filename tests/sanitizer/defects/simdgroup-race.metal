// Lanes of one simdgroup share memory and rely on running in step.
#include <metal_stdlib>
using namespace metal;
constant bool fixed [[function_constant(0)]];

// The lanes are turned around through threadgroup memory.
// launch: threads=32 group_size=32 x=float32[32] y=float32[32]:0
kernel void reversed(device const float* x, device float* y, uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float s[32];
  s[lane] = x[lane];  // other
  if (fixed) simdgroup_barrier(mem_flags::mem_threadgroup);
  y[lane] = s[31 - lane];  // expect: simdgroup-race
}

// The last steps of a reduction "need no barrier, it is one simdgroup".
// launch: threads=32 group_size=32 x=float32[32] y=float32[1]:0
kernel void last_steps_of_a_tree(device const float* x, device float* y, uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float s[32];
  s[lane] = x[lane];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  for (uint step = 16; step > 0; step >>= 1) {
    if (lane < step) s[lane] += s[lane + step];  // expect: simdgroup-race
    if (fixed) simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (lane == 0) y[0] = s[0];
}

// A neighbour's value through device memory.
// launch: threads=32 group_size=32 x=float32[32] scratch=float32[32]:0 y=float32[32]:0
kernel void neighbour_in_device_memory(
    device const float* x, device float* scratch, device float* y, uint lane [[thread_index_in_simdgroup]]) {
  scratch[lane] = x[lane] + 1;  // other
  if (fixed) simdgroup_barrier(mem_flags::mem_device);
  y[lane] = scratch[lane ^ 1];  // expect: simdgroup-race
}

// A scan in place: the sum is written before the neighbour has read.
// launch: threads=32 group_size=32 x=float32[32] y=float32[32]:0
kernel void scan_in_place(device const float* x, device float* y, uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float s[32];
  s[lane] = x[lane];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  for (uint step = 1; step < 32; step <<= 1) {
    float left = lane >= step ? s[lane - step] : 0.0f;  // other
    if (fixed) simdgroup_barrier(mem_flags::mem_threadgroup);
    s[lane] += left;  // expect: simdgroup-race
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  y[lane] = s[lane];
}

// A barrier stands where it must, and names the wrong memory.
#include <metal_stdlib>
using namespace metal;
constant bool fixed [[function_constant(0)]];

// from: mlx-lm, fused KL divergence: mem_none between accesses to the shared buffer orders the threads but not their memory
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void barrier_of_no_memory(device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float s[64];
  s[t] = x[t];  // other
  threadgroup_barrier(fixed ? mem_flags::mem_threadgroup : mem_flags::mem_none);
  y[t] = s[t ^ 32];  // expect: wrong-fence
}

// The flag of device memory, for data in threadgroup memory.
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void device_flag_for_threadgroup_memory(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float s[64];
  s[t] = x[t];  // other
  threadgroup_barrier(fixed ? mem_flags::mem_threadgroup : mem_flags::mem_device);
  y[t] = s[63 - t];  // expect: wrong-fence
}

// from: Metal.jl, @synchronize: the barrier names threadgroup memory alone, the kernel's data lie in device memory
// launch: threads=64 group_size=64 x=float32[64] scratch=float32[64]:0 y=float32[64]:0
kernel void threadgroup_flag_for_device_memory(
    device const float* x, device float* scratch, device float* y, uint t [[thread_index_in_threadgroup]]) {
  scratch[t] = x[t] * 3;  // other
  threadgroup_barrier(fixed ? mem_flags::mem_device : mem_flags::mem_threadgroup);
  y[t] = scratch[t ^ 32];  // expect: wrong-fence
}

// Inside of a simdgroup too.
// launch: threads=32 group_size=32 x=float32[32] y=float32[32]:0
kernel void simdgroup_barrier_of_no_memory(
    device const float* x, device float* y, uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float s[32];
  s[lane] = x[lane];  // other
  simdgroup_barrier(fixed ? mem_flags::mem_threadgroup : mem_flags::mem_none);
  y[lane] = s[31 - lane];  // expect: wrong-fence
}

// Textures are not what is shared here; and the write comes after the read.
// launch: threads=64 group_size=64 x=float32[128] y=float32[64]:0
kernel void texture_flag(device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float s[64];
  s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = s[t ^ 32];  // other
  threadgroup_barrier(fixed ? mem_flags::mem_threadgroup : mem_flags::mem_texture);
  s[t] = x[t + 64];  // expect: wrong-fence
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = sum + s[t ^ 32];
}

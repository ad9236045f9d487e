// Every thread of the threadgroup must reach the same barrier.
#include <metal_stdlib>
using namespace metal;
constant bool fixed [[function_constant(0)]];

// from: MoltenVK's tracker: a barrier in a branch that one thread takes hangs the GPU on some devices and not on others
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void barrier_in_a_branch(device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float first;
  if (t == 0) {
    first = x[0];
    if (!fixed) threadgroup_barrier(mem_flags::mem_threadgroup);  // expect: barrier-divergence
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);  // or
  y[t] = first;
}

// One simdgroup skips the barrier.
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void barrier_of_one_simdgroup(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float s[64];
  s[t] = x[t];
  if (fixed || t < 32) threadgroup_barrier(mem_flags::mem_threadgroup);  // expect: barrier-divergence
  y[t] = s[t];
}

// Each half of the threads waits at a barrier of its own.
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void two_barriers(device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float s[64];
  if (t < 32) {
    s[t] = x[t];
    if (!fixed) threadgroup_barrier(mem_flags::mem_threadgroup);  // expect: barrier-divergence
  } else {
    s[t] = -x[t];
    if (!fixed) threadgroup_barrier(mem_flags::mem_threadgroup);  // or
  }
  if (fixed) threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[t];
}

// Simdgroups go round a loop with a barrier a different number of times.
// launch: threads=64 group_size=64 x=float32[256] y=float32[64]:0
kernel void loop_of_different_lengths(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]],
    uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float s[64];
  float sum = 0;
  uint rounds = fixed ? 4 : 2 + group;
  for (uint j = 0; j < rounds; ++j) {
    s[t] = x[j * 64 + t];
    threadgroup_barrier(mem_flags::mem_threadgroup);  // expect: barrier-divergence
    sum += s[t];
  }
  y[t] = sum;
}

// Lanes leave the loop one after the other.
// launch: threads=32 group_size=32 x=float32[64] y=float32[32]:0
kernel void lanes_leave_the_loop(device const float* x, device float* y, uint lane [[thread_index_in_simdgroup]]) {
  float sum = 0;
  for (uint j = 0; j < 4; ++j) {
    if (!fixed && j > lane) break;
    sum += x[lane + j];
    threadgroup_barrier(mem_flags::mem_threadgroup);  // expect: barrier-divergence
  }
  y[lane] = sum;
}

// from: vllm-mlx, Metal context kernel: threads past 128 return "to be safe", the others wait for them at the next barrier
// launch: threads=192 group_size=192 x=float32[192] y=float32[192]:0
kernel void early_return_of_spare_threads(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float s[192];
  if (!fixed && t >= 128) return;
  s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);  // expect: barrier-divergence
  y[t] = s[t] * 2;
}

// from: mlx-node, gated delta kernel: threads of columns past the end return before the barriers of their threadgroup
// launch: threads=(32,2,1) group_size=(32,2,1) x=float32[64] y=float32[64]:0 columns=1
kernel void early_return_of_a_column(
    device const float* x, device float* y, constant uint& columns, uint2 at [[thread_position_in_grid]]) {
  threadgroup float s[64];
  bool inside = at.y < columns;
  if (!fixed && !inside) return;
  uint i = at.y * 32 + at.x;
  if (inside) s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);  // expect: barrier-divergence
  if (inside) y[i] = s[i];
}

// The length ends inside of a simdgroup, and the rest of its lanes returns.
// launch: threads=64 group_size=64 x=float32[50] y=float32[50]:0 n=50
kernel void early_return_of_lanes(
    device const float* x, device float* y, constant uint& n, uint t [[thread_position_in_grid]]) {
  threadgroup float s[64];
  if (!fixed && t >= n) return;
  if (t < n) s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);  // expect: barrier-divergence
  if (t < n) y[t] = s[t] + 1;
}

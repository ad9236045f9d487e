// Threadgroups of one launch run in no order: what one writes, another can neither read nor write.
#include <metal_stdlib>
using namespace metal;

// A counter of the whole grid, without atomics.
// launch: threadgroups=4 group_size=32 count=int32[1]:0
kernel void plain_counter(constant bool& fixed, device int* count, uint lane [[thread_index_in_simdgroup]]) {
  if (lane != 0) return;
  if (fixed) atomic_fetch_add_explicit((device atomic_int*)count, 1, memory_order_relaxed);
  else count[0] += 1;  // expect: race-between-threadgroups
}

// The stride between the groups' outputs is one too small.
// launch: threadgroups=3 group_size=32 x=float32[96] y=float32[96]:0
kernel void overlapping_outputs(
    constant bool& fixed, device const float* x, device float* y, uint group [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]], uint i [[thread_position_in_grid]]) {
  y[group * (fixed ? 32 : 31) + t] = x[i];  // expect: race-between-threadgroups
}

// The last group adds up what the others wrote, and nothing makes it wait for them.
// launch: threadgroups=4 group_size=32 x=float32[128] partial=float32[4]:0 y=float32[1]:0
kernel void last_group_adds_up(
    constant bool& fixed,
    device const float* x, device float* partial, device float* y, uint group [[threadgroup_position_in_grid]],
    uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  float sum = simd_sum(x[i]);
  if (lane != 0) return;
  partial[group] = sum;  // other
  if (fixed) return;  // a second launch adds up
  if (group == 3) y[0] = partial[0] + partial[3];  // expect: race-between-threadgroups
}

// from: AcceleratedKernels.jl, scan with look-back: the flag is atomic, the value that it guards is read with a plain load
// launch: threadgroups=3 group_size=32 x=int32[96] total=int32[3]:0 flag=int32[3]:0 y=int32[3]:0
kernel void hand_over(
    constant bool& fixed, device const int* x, device int* total, device atomic_int* flag, device int* y,
    uint group [[threadgroup_position_in_grid]], uint i [[thread_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  int sum = simd_sum(x[i]);
  if (lane != 0) return;
  device atomic_int* totals = (device atomic_int*)total;
  if (fixed) atomic_store_explicit(&totals[group], sum, memory_order_relaxed);
  else total[group] = sum;  // other
  atomic_store_explicit(&flag[group], 1, memory_order_relaxed);
  int carry = 0;
  if (group > 0 && atomic_load_explicit(&flag[group - 1], memory_order_relaxed) == 1) {
    if (fixed) carry = atomic_load_explicit(&totals[group - 1], memory_order_relaxed);
    else carry = total[group - 1];  // expect: race-between-threadgroups
  }
  y[group] = sum + carry;
}

// from: MLX, metal_kernel: the gradient of grid_sample is added to by several threadgroups; atomic_outputs was made for it
// launch: threadgroups=3 group_size=32 dy=float32[96] dw=float32[32]:0
kernel void gradient_of_two_groups(
    constant bool& fixed, device const float* dy, device float* dw, uint i [[thread_position_in_grid]],
    uint column [[thread_index_in_threadgroup]]) {
  if (fixed) atomic_fetch_add_explicit((device atomic_float*)dw + column, dy[i], memory_order_relaxed);
  else dw[column] += dy[i];  // expect: race-between-threadgroups
}

// from: PyTorch MPS, index_put_ with repeated indices: the result changes from run to run, each thread writes its own value
// launch: threadgroups=2 group_size=4 index=int32:0,1,2,3,1,4,5,6 values=float32[8] y=float32[8]:0
kernel void repeated_indices(
    constant bool& fixed,
    device const int* index, device const float* values, device float* y, uint i [[thread_position_in_grid]]) {
  if (!fixed) {
    y[index[i]] = values[i];  // expect: race-between-threadgroups
  } else if (i == 0) {
    for (uint j = 0; j < 8; ++j) y[index[j]] = values[j];
  }
}

// from: ggml (its CPU and CANN backends; the same in MSL): an operator runs in place, and its input is overwritten before it is read
// launch: threadgroups=3 group_size=32 x=float32[96] y=float32[96]:0
kernel void in_place_neighbour(
    constant bool& fixed,
    device float* x, device float* y, uint i [[thread_position_in_grid]], uint n [[threads_per_grid]]) {
  device float* out = fixed ? y : x;
  float right = x[(i + 32) % n];  // other
  out[i] = right + 1;  // expect: race-between-threadgroups
}

// A threadgroup reads back what it wrote, behind a barrier; then the next one reads it.
// launch: threadgroups=3 group_size=32 x=float32[96] total=float32[3]:0 y=float32[3]:0
kernel void read_back_behind_a_barrier(
    constant bool& fixed, device const float* x, device float* total, device float* y,
    uint group [[threadgroup_position_in_grid]], uint i [[thread_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  float sum = simd_sum(x[i]);
  if (lane == 0) total[group] = sum;  // other
  threadgroup_barrier(mem_flags::mem_device);
  if (lane != 7) return;
  float mine = total[group];
  if (!fixed && group > 0) mine += total[group - 1];  // expect: race-between-threadgroups
  y[group] = mine;
}

// Two simdgroups of one threadgroup share memory with no barrier between their accesses.
#include <metal_stdlib>
using namespace metal;
constant bool fixed [[function_constant(0)]];

// The second simdgroup reads what the first one wrote.
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void no_barrier_after_the_writes(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float s[64];
  s[t] = x[t];  // other
  if (fixed) threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t >= 32) y[t] = s[t - 32];  // expect: race
}

// The same through device memory.
// launch: threads=64 group_size=64 x=float32[64] scratch=float32[64]:0 y=float32[64]:0
kernel void device_scratch(
    device const float* x, device float* scratch, device float* y, uint t [[thread_index_in_threadgroup]]) {
  scratch[t] = x[t] * 2;  // other
  if (fixed) threadgroup_barrier(mem_flags::mem_device);
  y[t] = scratch[t ^ 32];  // expect: race
}

// Both simdgroups write their maximum to the one slot.
// launch: threads=64 group_size=64 x=float32[64] y=float32[1]:0
kernel void two_maxima_in_one_slot(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float best[2];
  float most = simd_max(x[t]);
  if (lane == 0) best[fixed ? group : 0] = most;  // expect: race
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t == 0) y[0] = fixed ? max(best[0], best[1]) : best[0];
}

// A tree reduction whose steps are not held apart.
// launch: threads=128 group_size=128 x=float32[128] y=float32[1]:0
kernel void tree_reduction(device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float s[128];
  s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint half_ = 64; half_ > 0; half_ >>= 1) {
    if (t < half_) s[t] += s[t + half_];  // expect: race, simdgroup-race
    if (fixed) threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (t == 0) y[0] = s[0];
}

// A plain write against an atomic one: the counter is set to zero while others count.
// launch: threads=64 group_size=64 count=int32[1]
kernel void reset_without_a_barrier(device atomic_int* count, uint t [[thread_index_in_threadgroup]]) {
  if (t == 0) *(device int*)count = 0;  // other
  if (fixed) threadgroup_barrier(mem_flags::mem_device);
  if (t % 32 == 0 && t > 0) atomic_fetch_add_explicit(count, 1, memory_order_relaxed);  // expect: race
}

// A simdgroup barrier where the data crosses simdgroups.
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void simdgroup_barrier_is_too_narrow(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float s[64];
  s[t] = x[t];  // other
  if (fixed) threadgroup_barrier(mem_flags::mem_threadgroup);
  else simdgroup_barrier(mem_flags::mem_threadgroup);
  if (t >= 32) y[t] = s[63 - t];  // expect: race
}

// from: llama.cpp, norm kernel: no barrier after the mean, so the sums of squares overwrite what others still read
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void no_barrier_after_the_mean(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float s[64];
  s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float mean = 0;
  for (uint j = 0; j < 64; ++j) mean += s[j] / 64;  // other
  if (fixed) threadgroup_barrier(mem_flags::mem_threadgroup);
  float away = x[t] - mean;
  s[t] = away * away;  // expect: race; may: simdgroup-race
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float variance = 0;
  for (uint j = 0; j < 64; ++j) variance += s[j] / 64;
  y[t] = away * rsqrt(variance + 1e-5f);
}

// from: MLX, layer norm: the second threadgroup sum reuses the scratch of the first while others still read it
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void scratch_of_two_sums(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[2];
  float sum = simd_sum(x[t]);
  if (lane == 0) partial[group] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float mean = (partial[0] + partial[1]) / 64;  // other
  float away = x[t] - mean;
  float squares = simd_sum(away * away);
  if (fixed) threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 0) partial[group] = squares;  // expect: race; may: simdgroup-race
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = away * rsqrt((partial[0] + partial[1]) / 64 + 1e-5f);
}

// from: mlx-lm, fused KL divergence: partial sums are written over the row maxima with no barrier; gradients saturate now and then
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void sums_over_maxima(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float shared[2];
  float most = simd_max(x[t]);
  if (lane == 0) shared[group] = most;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane < 2) most = shared[lane];  // other
  most = simd_max(most);
  if (fixed) threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = simd_sum(exp(x[t] - most));
  if (lane == 0) shared[group] = sum;  // expect: race; may: simdgroup-race
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = x[t] - most - log(shared[0] + shared[1]);
}

// from: llama.cpp, first matrix product: the tile in threadgroup memory is reused in the loop without a barrier
// launch: threads=64 group_size=64 x=float32[192] y=float32[64]:0
kernel void tile_reused_in_a_loop(device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  float sum = 0;
  for (uint block = 0; block < 3; ++block) {
    tile[t] = x[block * 64 + t];  // other
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum += tile[t ^ 32];  // expect: race
    if (fixed) threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  y[t] = sum;
}

// from: tilelang, staged epilogue: no barrier after simdgroup_store, and another simdgroup reads the tile
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void stored_matrix(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]],
    uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float tile[64];
  if (group == 0) {
    simdgroup_float8x8 m;
    simdgroup_load(m, x, 8);
    simdgroup_store(m, tile, 8);  // other
  }
  if (fixed) threadgroup_barrier(mem_flags::mem_threadgroup);
  if (group == 1) y[t] = tile[t - 32] + tile[t];  // expect: race
}

// from: FlexAIDdS, Metal scoring: simd_sum is taken for the sum of all 256 threads; each of 8 simdgroups writes its own
// launch: threads=256 group_size=256 x=float32[256] y=float32[1]:0
kernel void simd_sum_of_256_threads(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[8];
  float sum = simd_sum(x[t]);
  if (fixed) {
    if (lane == 0) partial[group] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = simd_sum(lane < 8 ? partial[lane] : 0.0f);
  }
  if (fixed ? t == 0 : lane == 0) y[0] = sum;  // expect: race
}

// Two lanes write to one slot.
// launch: threads=32 group_size=32 x=float32[32] y=float32[32]:0
kernel void two_lanes_one_slot(device const float* x, device float* y, uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float s[32];
  s[fixed ? lane : lane / 2] = x[lane];  // expect: race
  simdgroup_barrier(mem_flags::mem_threadgroup);
  y[lane] = s[lane / 2];
}

// Thread 0 works out the mean, and all read it at once: its own simdgroup too.
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void mean_of_thread_0(device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float s[64];
  threadgroup float mean;
  s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t == 0) {
    float sum = 0;
    for (uint j = 0; j < 64; ++j) sum += s[j];
    mean = sum / 64;  // other
  }
  if (fixed) threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = x[t] - mean;  // expect: race, simdgroup-race
}

// The first simdgroup writes, guards it with a barrier of its own, and reads; the second reads too.
// launch: threads=64 group_size=64 x=float32[64] y=float32[64]:0
kernel void simdgroup_barrier_then_all_read(
    device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float table[16];
  if (t < 16) table[t] = x[t];  // other
  if (fixed) threadgroup_barrier(mem_flags::mem_threadgroup);
  else simdgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0;
  for (uint j = 0; j < 16; ++j) sum += table[j];  // expect: race
  y[t] = sum;
}

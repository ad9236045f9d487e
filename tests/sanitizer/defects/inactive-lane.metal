// A lane reads the value of a lane that is not there.
#include <metal_stdlib>
using namespace metal;

// A shuffle in a branch that half of the lanes take.
// launch: threads=32 group_size=32 x=float32[32] y=float32[32]:0
kernel void shuffle_in_a_branch(
    constant bool& fixed, device const float* x, device float* y, ushort lane [[thread_index_in_simdgroup]]) {
  float v = x[lane];
  if (fixed) {
    float other = simd_shuffle(v, ushort(31 - lane));
    if (lane < 16) y[lane] = other;
  } else if (lane < 16) {
    y[lane] = simd_shuffle(v, ushort(31 - lane));  // expect: inactive-lane thread 0
  }
}

// Lane 0 hands out a value in a branch that it does not take.
// launch: threads=32 group_size=32 x=float32[32] y=float32[32]:0
kernel void broadcast_of_an_absent_lane(
    constant bool& fixed, device const float* x, device float* y, ushort lane [[thread_index_in_simdgroup]]) {
  float v = x[lane];
  if (fixed || lane > 0) {
    y[lane] = v - simd_broadcast(v, ushort(0));  // expect: inactive-lane thread 1
  }
}

// The fourth lane of each quad.
// launch: threads=32 group_size=32 x=float32[32] y=float32[32]:0
kernel void quad_broadcast_of_an_absent_lane(
    constant bool& fixed, device const float* x, device float* y, ushort lane [[thread_index_in_simdgroup]]) {
  float v = x[lane];
  if (fixed || lane % 4 != 3) {
    y[lane] = quad_broadcast(v, ushort(3));  // expect: inactive-lane thread 0
  }
}

// A reduction by shuffles in a group of 40: the second simdgroup has 8 lanes.
// launch: threads=40 group_size=40 x=float32[40] y=float32[2]:0
kernel void last_simdgroup_is_partial(
    constant bool& fixed, device const float* x, device float* y, uint t [[thread_index_in_threadgroup]],
    ushort lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]],
    uint size [[threads_per_threadgroup]]) {
  float v = x[t];
  if (fixed) {
    v = simd_sum(v);
  } else {
    for (ushort step = 16; step > 0; step >>= 1) v += simd_shuffle_xor(v, step);  // expect: inactive-lane thread 32
  }
  if (lane == 0) y[group] = v;
}

// Threads past the end return, and their neighbours shuffle with them.
// launch: threads=32 group_size=32 x=float32[20] y=float32[32]:0 n=20
kernel void shuffle_after_a_return(
    constant bool& fixed,
    device const float* x, device float* y, constant uint& n, ushort lane [[thread_index_in_simdgroup]]) {
  if (!fixed && lane >= n) return;
  float v = lane < n ? x[lane] : 0.0f;
  float right = simd_shuffle_down(v, ushort(1));  // expect: inactive-lane thread 19
  y[lane] = v + right;
}

// Lanes leave a loop at different times and go on shuffling.
// launch: threads=32 group_size=32 x=float32[32] y=float32[32]:0
kernel void shuffle_in_a_loop(
    constant bool& fixed, device const float* x, device float* y, ushort lane [[thread_index_in_simdgroup]]) {
  float v = x[lane];
  uint rounds = fixed ? 3 : lane % 4;
  for (uint j = 0; j < rounds; ++j) {
    v += simd_shuffle_xor(v, ushort(1));  // expect: inactive-lane
  }
  y[lane] = v;
}

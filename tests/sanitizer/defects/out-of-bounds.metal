// Reads and writes outside of device, constant, threadgroup and private memory.
#include <metal_stdlib>
using namespace metal;

// The right neighbour of the last element.
// launch: threads=16 group_size=16 x=float32[16] y=float32[16]:0
kernel void neighbour_past_the_end(
    constant bool& fixed, device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = x[fixed ? min(i + 1, 15u) : i + 1];  // expect: out-of-bounds thread 15
}

// More threads than elements, and no guard.
// launch: threads=64 group_size=32 y=float32[50]:0 n=50
kernel void grid_larger_than_the_output(
    constant bool& fixed, device float* y, constant uint& n, uint i [[thread_position_in_grid]]) {
  if (fixed && i >= n) return;
  y[i] = float(i);  // expect: out-of-bounds thread 50
}

// The stencil's left neighbour of the first element.
// launch: threads=40 group_size=40 x=float32[40] y=float32[40]:0
kernel void negative_index(
    constant bool& fixed, device const float* x, device float* y, uint t [[thread_position_in_grid]]) {
  int i = int(t);
  y[i] = x[fixed ? max(i - 1, 0) : i - 1];  // expect: out-of-bounds thread 0
}

// One more parameter than the host packed.
// launch: threads=8 group_size=8 strides=int32:5,3 y=int32[8]:0
kernel void constant_buffer(
    constant bool& fixed, constant int* strides, device int* y, uint i [[thread_position_in_grid]]) {
  y[i] = strides[fixed ? i % 2 : i % 4];  // expect: out-of-bounds thread 2
}

constant float kTable[8] = {0, 1, 2, 3, 4, 5, 6, 7};

// A table at file scope, indexed by data that was not masked.
// launch: threads=32 group_size=32 codes=uint8[32] y=float32[32]:0
kernel void constant_table(
    constant bool& fixed, device const uchar* codes, device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = kTable[fixed ? codes[i] & 7 : codes[i]];  // expect: out-of-bounds thread 7
}

// The halo of a tile: 32 threads, 34 elements, an array of 33.
// launch: threads=32 group_size=32 x=float32[34] y=float32[32]:0
kernel void tile_without_its_halo(
    constant bool& fixed, device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float tile[34];
  threadgroup float small[33];
  if (fixed) {
    tile[t] = x[t];
    if (t < 2) tile[t + 32] = x[t + 32];
  } else {
    small[t] = x[t];
    if (t < 2) small[t + 32] = x[t + 32];  // expect: out-of-bounds thread 1
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = fixed ? tile[t + 2] : small[t];
}

// Threadgroup memory given by the host is half of what the kernel uses.
// launch: threads=64 group_size=64 threadgroup_memory=128 x=float32[64] y=float32[64]:0
// fixed launch: threads=64 group_size=64 threadgroup_memory=256 x=float32[64] y=float32[64]:0
kernel void dynamic_threadgroup_memory(
    constant bool& fixed, device const float* x, device float* y, threadgroup float* scratch [[threadgroup(0)]],
    uint t [[thread_index_in_threadgroup]]) {
  scratch[t] = x[t];  // expect: out-of-bounds thread 32
  y[t] = float(t);
}

// A window of 5 kept in an array of 4.
// launch: threads=32 group_size=32 x=float32[36] y=float32[32]:0
kernel void private_array(
    constant bool& fixed, device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
  float window[4];
  for (uint j = 0; j < (fixed ? 4u : 5u); ++j) {
    window[j] = x[i + j];  // expect: out-of-bounds thread 0
  }
  float sum = 0;
  for (uint j = 0; j < 4; ++j) sum += window[j];
  y[i] = sum;
}

// Read before the first element of a private array.
// launch: threads=32 group_size=32 y=int32[32]:0
kernel void private_array_before_its_start(constant bool& fixed, device int* y, uint i [[thread_position_in_grid]]) {
  int table[4] = {1, 2, 3, 4};
  int at = int(i % 5) - 1;
  y[i] = table[fixed ? max(at, 0) : at];  // expect: out-of-bounds thread 0
}

// A bin that does not exist, counted with an atomic.
// launch: threads=64 group_size=32 x=int32[64] bins=int32[64]:0
kernel void atomic_past_the_end(
    constant bool& fixed, device const int* x, device atomic_int* bins, uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(&bins[fixed ? x[i] - 1 : x[i]], 1, memory_order_relaxed);  // expect: out-of-bounds thread 63
}

// from: MLX, quantized matrix product: the last block reads past the end when K is no multiple of 32; here it is the keys of attention
// launch: threads=32 group_size=32 q=float32[8] k=float32[45,8] scores=float32[64]:0 length=45
kernel void attention_past_the_keys(
    constant bool& fixed, device const float* q, device const float* k, device float* scores, constant uint& length,
    uint lane [[thread_index_in_simdgroup]]) {
  for (uint block = 0; block < length; block += 32) {
    uint row = block + lane;
    float dot = 0;
    for (uint d = 0; d < 8; ++d) {
      if (!fixed || row < length) dot += q[d] * k[row * 8 + d];  // expect: out-of-bounds thread 13
    }
    scores[row] = dot;
  }
}

// from: candle, Q2_K matrix-vector kernel: the stores are not tested against the row count, 12 floats are written past the end at 12 rows
// launch: threadgroups=3 group_size=32 x=float32[24] dst=float32[12]:0 rows=12
kernel void twelve_floats_past_the_end(
    constant bool& fixed,
    device const float* x, device float* dst, constant uint& rows, uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  for (uint r = 0; r < 8; ++r) {
    uint row = group * 8 + r;
    float sum = simd_sum(x[row] * float(lane));
    if (lane == 0 && (!fixed || row < rows)) {
      dst[row] = sum;  // expect: out-of-bounds thread 32
    }
  }
}

// from: MLX, quantized matrix-vector kernel: a vector that is no multiple of the block size was read past its end
// launch: threads=32 group_size=32 w=float32[1,300] x=float32[300] y=float32[1]:0 n=300
kernel void block_past_the_vector(
    constant bool& fixed, device const float* w, device const float* x, device float* y, constant uint& n,
    uint lane [[thread_index_in_simdgroup]]) {
  float sum = 0;
  for (uint k = lane * 8; k < n; k += 256) {
    uint end = fixed ? min(k + 8, n) : k + 8;
    for (uint j = k; j < end; ++j) {
      sum += w[j] *  // expect: out-of-bounds thread 5
             x[j];  // may: out-of-bounds
    }
  }
  sum = simd_sum(sum);
  if (lane == 0) y[0] = sum;
}

// from: pie, Metal attention: the search for a sequence's row goes on to a fixed bound and not to the table's length
// launch: threads=12 group_size=12 starts=int32:0,4,8,12 y=int32[12]:0
kernel void search_past_the_table(
    constant bool& fixed, device const int* starts, device int* y, uint i [[thread_position_in_grid]]) {
  int at = 0;
  int wanted = int(i) + (fixed ? 0 : 2);
  while (at < 100 && starts[at + 1] <= wanted) ++at;  // expect: out-of-bounds thread 10
  y[i] = at;
}

// from: Metal.jl, two-level mapreduce: the shared array is smaller than the launch's number of simdgroups
// launch: threads=128 group_size=128 x=float32[128] y=float32[1]:0
kernel void more_simdgroups_than_slots(
    constant bool& fixed, device const float* x, device float* y, uint t [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[2];
  threadgroup float enough[4];
  float sum = simd_sum(x[t]);
  if (lane == 0) {
    if (fixed) enough[group] = sum;
    else partial[group] = sum;  // expect: out-of-bounds thread 64
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t == 0) y[0] = fixed ? enough[0] + enough[1] + enough[2] + enough[3] : partial[0] + partial[1];
}

// from: SlimServe, Metal expert router: with a row of NaN no expert is best, and the private array is written at -1
// launch: threads=32 group_size=32 x=float32[128]:nan y=float32[32]:0
kernel void best_of_nothing(
    constant bool& fixed, device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
  float scores[4];
  for (int j = 0; j < 4; ++j) scores[j] = x[i * 4 + uint(j)];
  int best = -1;
  float most = -INFINITY;
  for (int j = 0; j < 4; ++j) {
    if (scores[j] > most) {
      most = scores[j];
      best = j;
    }
  }
  if (!fixed || best >= 0) scores[best] = -INFINITY;  // expect: out-of-bounds thread 0
  y[i] = scores[0];
}

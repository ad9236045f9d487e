// Accesses at addresses that are no multiple of their type's alignment.
#include <metal_stdlib>
using namespace metal;

// A float4 at an odd element.
// launch: threads=4 group_size=4 x=float32[24] y=float32[4]:0
kernel void vector_at_an_odd_element(
    constant bool& fixed, device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
  device const float* row = x + i * (fixed ? 4 : 5);
  float4 v = *(device const float4*)row;  // expect: misaligned thread 1
  y[i] = v.x + v.w;
}

// from: ik_llama.cpp, IQ3_K dot product: scales of a 110-byte block are read as 4-byte words; the block is aligned to 2 bytes
// launch: threads=4 group_size=4 blocks=uint8[448] y=uint32[4]:0
kernel void word_in_a_block_of_bytes(
    constant bool& fixed, device const uchar* blocks, device uint* y, uint i [[thread_position_in_grid]]) {
  device const uchar* scales = blocks + i * 110;
  if (fixed) {
    y[i] = uint(scales[0]) | uint(scales[1]) << 8 | uint(scales[2]) << 16 | uint(scales[3]) << 24;
  } else {
    y[i] = *(device const uint*)scales;  // expect: misaligned thread 1
  }
}

// Two halves stored as one, at an odd half.
// launch: threads=8 group_size=8 y=float16[24]:0
kernel void pair_of_halves(constant bool& fixed, device half* y, uint i [[thread_position_in_grid]]) {
  device half* at = y + i * 2 + (fixed ? 0 : 1);
  *(device half2*)at = half2(1, 2);  // expect: misaligned thread 0
}

// A vector in threadgroup memory behind a header of one float.
// launch: threads=32 group_size=32 x=float32[128] y=float32[32]:0
kernel void vector_behind_a_header(
    constant bool& fixed, device const float* x, device float* y, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float4 space[33];
  threadgroup float* s = (threadgroup float*)space;
  threadgroup float* data = s + (fixed ? 4 : 1);
  for (uint j = 0; j < 4; ++j) data[t * 4 + j] = x[t * 4 + j];
  float4 v = *(threadgroup float4*)(data + t * 4);  // expect: misaligned thread 0
  y[t] = v.y;
}

// A 64-bit counter in a buffer of 32-bit words.
// launch: threads=4 group_size=4 words=int32[16] y=int64[4]:0
kernel void long_in_a_buffer_of_ints(
    constant bool& fixed, device const int* words, device long* y, uint i [[thread_position_in_grid]]) {
  device const int* at = words + i * (fixed ? 2 : 3);
  y[i] = *(device const long*)at;  // expect: misaligned thread 1
}

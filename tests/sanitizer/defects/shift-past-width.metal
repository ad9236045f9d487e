// Shifts by the width of the type or more.
#include <metal_stdlib>
using namespace metal;

// A mask of n bits, where n may be 32.
// launch: threads=33 group_size=33 y=uint32[33]:0
kernel void mask_of_all_bits(constant bool& fixed, device uint* y, uint i [[thread_position_in_grid]]) {
  if (fixed) y[i] = i < 32 ? (1u << i) - 1 : ~0u;
  else y[i] = (1u << i) - 1;  // expect: shift-past-width thread 32
}

// The last code of a row crosses a word.
// launch: threads=10 group_size=10 words=uint32[4] y=uint32[10]:0
kernel void code_across_two_words(
    constant bool& fixed, device const uint* words, device uint* y, uint i [[thread_position_in_grid]]) {
  uint bit = i * 6;
  uint low = words[bit / 32] >> (bit % 32);
  uint rest = 32 - bit % 32;
  if (!fixed || rest < 32) low |= words[bit / 32 + 1] << rest;  // expect: shift-past-width thread 0
  y[i] = low & 63;
}

// A negative count.
// launch: threads=8 group_size=8 x=int32[8] y=int32[8]:0
kernel void negative_count(
    constant bool& fixed, device const int* x, device int* y, uint i [[thread_position_in_grid]]) {
  int count = 4 - x[i];
  if (fixed && count < 0) y[i] = 0;
  else y[i] = 256 >> count;  // expect: shift-past-width thread 4
}

// 64 bits are shifted by 64.
// launch: threads=9 group_size=9 y=uint64[9]:0
kernel void byte_of_a_long(constant bool& fixed, device ulong* y, uint i [[thread_position_in_grid]]) {
  ulong shift = i * 8;
  y[i] = 0x8877665544332211ul >> (fixed ? min(shift, 56ul) : shift);  // expect: shift-past-width thread 8
}

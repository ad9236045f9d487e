// Integer divisions and remainders by zero.
#include <metal_stdlib>
using namespace metal;

// The mean of an empty segment.
// launch: threads=8 group_size=8 sums=int32[8] counts=int32:1,2,0,4,0,1,1,1 y=int32[8]:0
kernel void mean_of_an_empty_segment(
    constant bool& fixed,
    device const int* sums, device const int* counts, device int* y, uint i [[thread_position_in_grid]]) {
  if (fixed && counts[i] == 0) return;
  y[i] = sums[i] / counts[i];  // expect: division-by-zero thread 2
}

// Heads per group, when there are more groups than heads.
// launch: threads=16 group_size=16 y=uint32[16]:0 heads=4 groups=8
kernel void heads_per_group(
    constant bool& fixed,
    device uint* y, constant uint& heads, constant uint& groups, uint i [[thread_position_in_grid]]) {
  uint per_group = heads / groups;
  if (fixed) per_group = max(per_group, 1u);
  y[i] = i / per_group;  // expect: division-by-zero thread 0
}

// A hash into a table without slots.
// launch: threads=8 group_size=8 keys=uint32[8] sizes=uint32:8,8,8,8,8,8,8,0 y=uint32[8]:0
kernel void remainder(
    constant bool& fixed,
    device const uint* keys, device const uint* sizes, device uint* y, uint i [[thread_position_in_grid]]) {
  uint size = sizes[i];
  if (fixed) size = max(size, 1u);
  y[i] = keys[i] % size;  // expect: division-by-zero thread 7
}

// 64-bit, in a loop, in some lanes only.
// launch: threads=32 group_size=32 y=int64[32]:0
kernel void step_of_a_loop(constant bool& fixed, device long* y, uint i [[thread_position_in_grid]]) {
  long value = 1000;
  for (long j = 5; j >= (fixed ? 1 : 0); --j) {
    if (i > 20) value += 7 / j;  // expect: division-by-zero thread 21
  }
  y[i] = value;
}

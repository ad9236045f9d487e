// Assertions that do not hold.
#include <metal_stdlib>
using namespace metal;

// A row that its table does not have.
// launch: threads=8 group_size=8 rows=int32:0,1,2,9,4,0,1,1 y=int32[8]:0 n=8
kernel void row_of_a_table(
    constant bool& fixed,
    device const int* rows, device int* y, constant int& n, uint i [[thread_position_in_grid]]) {
  int row = fixed ? min(rows[i], n - 1) : rows[i];
  assert(row >= 0 && row < n);  // expect: assertion-failed thread 3
  y[i] = row;
}

// A square root of what should be a sum of squares.
// launch: threads=33 group_size=33 x=float32[33]:1 y=float32[33]:0
kernel void root_of_a_difference(
    constant bool& fixed, device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
  float rest = x[i] - (i == 32 ? 2.0f : 0.5f);
  if (fixed) rest = max(rest, 0.0f);
  assert(rest >= 0);  // expect: assertion-failed thread 32
  y[i] = sqrt(rest);
}

// In a loop, in some lanes only.
// launch: threads=32 group_size=32 y=int32[32]:0
kernel void halved_until_odd(constant bool& fixed, device int* y, uint i [[thread_position_in_grid]]) {
  int value = 96;
  for (uint j = 0; j < (i >= 20 ? 6 : 5); ++j) {
    if (fixed) value &= ~1;
    assert(value % 2 == 0);  // expect: assertion-failed thread 20
    value /= 2;
  }
  y[i] = value;
}

// What simdgroups have left in threadgroup memory.
// launch: threads=64 group_size=64 y=int32[64]:0
kernel void sum_of_simdgroups(
    constant bool& fixed,
    device int* y, uint i [[thread_position_in_threadgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup int sums[2];
  int sum = simd_sum(fixed ? 1 : int(i % 2));
  if (i % 32 == 0) sums[simdgroup] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  assert(sums[0] + sums[1] == 64);  // expect: assertion-failed thread 0
  y[i] = sums[0] + sums[1];
}

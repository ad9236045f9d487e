// Private variables, members and elements that are read before they have a value.
#include <metal_stdlib>
using namespace metal;

// An accumulator that starts with what was in the register.
// launch: threads=32 group_size=32 x=float32[128] y=float32[32]:0
kernel void accumulator(
    constant bool& fixed, device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
  float sum;
  if (fixed) sum = 0;
  for (uint j = 0; j < 4; ++j) sum += x[i * 4 + j];  // or
  y[i] = sum;  // expect: uninitialised-variable thread 0
}

// A case that the switch does not have.
// launch: threads=32 group_size=32 y=int32[32]:0
kernel void missing_case(constant bool& fixed, device int* y, uint i [[thread_position_in_grid]]) {
  int value;
  switch (i % 4) {
    case 0: value = 10; break;
    case 1: value = 20; break;
    case 2: value = 30; break;
    default:
      if (fixed) value = 0;
  }
  y[i] = value;  // expect: uninitialised-variable thread 3
}

struct Range { int first; int count; };

// One member of two.
// launch: threads=8 group_size=8 y=int32[8]:0
kernel void member_without_a_value(constant bool& fixed, device int* y, uint i [[thread_position_in_grid]]) {
  Range range;
  range.first = int(i);
  if (fixed) range.count = 1;
  y[i] = range.first + range.count;  // expect: uninitialised-variable thread 0
}

// The tail of a vector of registers.
// launch: threads=8 group_size=8 x=float32[30] y=float32[8]:0 n=30
kernel void tail_of_the_registers(
    constant bool& fixed,
    device const float* x, device float* y, constant uint& n, uint i [[thread_position_in_grid]]) {
  float values[4];
  for (uint j = 0; j < 4; ++j) {
    if (i * 4 + j < n) values[j] = x[i * 4 + j];
    else if (fixed) values[j] = 0;
  }
  float sum = 0;
  for (uint j = 0; j < 4; ++j) sum += values[j];  // or
  y[i] = sum;  // expect: uninitialised-variable thread 7
}

bool find(device const float* x, uint i, thread float& found) {
  if (x[i] < 5) return false;
  found = x[i];
  return true;
}

// The answer of a search that failed.
// launch: threads=8 group_size=8 x=float32[8] y=float32[8]:0
kernel void result_of_a_failed_search(
    constant bool& fixed, device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
  float value;
  bool is_found = find(x, i, value);
  if (fixed && !is_found) value = 0;
  y[i] = value;  // expect: uninitialised-variable thread 0
}

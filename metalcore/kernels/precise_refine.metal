// One step of iterative refinement: x + x_low += d, where d solves A d = b - A (x + x_low) roughly. A column takes the
// first correction where it is less than half of x, and others while each is less than half of the one before; then it
// stays as it is.
#include "float_float.h"

constant bool is_first [[function_constant(0)]];  // x has no low half yet

// A thread has a column of one matrix. `size` is the largest element of the last correction, -1 where it was refused.
template <typename T>
[[kernel]] void precise_correct(
    device const T* x [[buffer(0)]],
    device const T* x_low [[buffer(1)]],
    device const T* d [[buffer(2)]],
    device const T* size [[buffer(3)]],
    device T* high [[buffer(4)]],
    device T* low [[buffer(5)]],
    device T* new_size [[buffer(6)]],
    constant long& rows [[buffer(7)]],
    constant long& columns [[buffer(8)]],
    uint3 position [[thread_position_in_grid]],
    uint3 group [[threadgroup_position_in_grid]]) {
  const uint column = position.x;
  if (column >= columns) {
    return;
  }
  const ulong batch = group.y, first = batch * ulong(rows * columns);
  float largest = 0.0f, limit = 0.0f;
  for (uint i = 0; i < uint(rows); i++) {
    const ulong at = first + ulong(i) * columns + column;
    const float part = abs(d[at]);
    largest = part > largest || isnan(part) ? part : largest;
    limit = is_first ? max(limit, 0.5f * abs(x[at])) : 0.0f;
  }
  if (!is_first) {
    limit = 0.5f * size[batch * columns + column];
  }
  const bool is_taken = largest < limit;
  new_size[batch * columns + column] = is_taken ? largest : -1.0f;
  for (uint i = 0; i < uint(rows); i++) {
    const ulong at = first + ulong(i) * columns + column;
    const FloatFloat before = {x[at], is_first ? 0.0f : x_low[at]};
    const FloatFloat after = before + d[at];
    high[at] = is_taken ? after.high : before.high;
    low[at] = is_taken ? after.low : before.low;
  }
}

#include <metal_stdlib>
using namespace metal;

// Rows of an embedding table, scaled; an index past the table gives zeros.
kernel void gather(
    device const float* table, device const int* index, device float* y, constant uint& vocabulary,
    constant uint& width, constant uint& count, uint2 at [[thread_position_in_grid]]) {
  if (at.x >= width || at.y >= count) return;
  int row = index[at.y];
  float v = 0;
  if (row >= 0 && uint(row) < vocabulary) v = table[uint(row) * width + at.x];
  y[at.y * width + at.x] = 2 * v;
}

#include <metal_stdlib>
using namespace metal;

// Transpose through a padded tile.
kernel void transpose(
    device const float* x, device float* y, constant uint& rows, constant uint& columns,
    uint2 group [[threadgroup_position_in_grid]], uint2 t [[thread_position_in_threadgroup]]) {
  threadgroup float tile[16][17];
  uint row = group.y * 16 + t.y;
  uint column = group.x * 16 + t.x;
  if (row < rows && column < columns) {
    tile[t.y][t.x] = x[row * columns + column];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  row = group.y * 16 + t.x;
  column = group.x * 16 + t.y;
  if (row < rows && column < columns) {
    y[column * rows + row] = tile[t.x][t.y];
  }
}

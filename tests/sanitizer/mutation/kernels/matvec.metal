#include <metal_stdlib>
using namespace metal;

// y = A x: the vector goes to threadgroup memory, each simdgroup takes rows of its own.
kernel void matvec(
    device const float* a, device const float* x, device float* y, constant uint& rows, constant uint& n,
    uint block [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]],
    uint size [[threads_per_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]], uint groups [[simdgroups_per_threadgroup]]) {
  threadgroup float vector[80];
  threadgroup float products[128];
  for (uint i = t; i < n; i += size) vector[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint row = block * groups + group;
  float sum = 0;
  if (row < rows) {
    for (uint i = lane; i < n; i += 32) sum += a[row * n + i] * vector[i];
  }
  products[t] = sum;
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 0 && row < rows) {
    float total = 0;
    for (uint j = 0; j < 32; ++j) total += products[t + j];
    y[row] = total;
  }
}

#include <metal_stdlib>
using namespace metal;

// Sum of each segment [starts[s], starts[s + 1]); the threads' parts go through device memory.
kernel void segmented_sum(
    device const float* x, device const uint* starts, device float* scratch, device float* y,
    uint s [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]],
    uint size [[threads_per_threadgroup]]) {
  float sum = 0;
  for (uint i = starts[s] + t; i < starts[s + 1]; i += size) sum += x[i];
  scratch[s * size + t] = sum;
  threadgroup_barrier(mem_flags::mem_device);
  if (t < 8) {
    float part = 0;
    for (uint j = t; j < size; j += 8) part += scratch[s * size + j];
    sum = part;
  }
  threadgroup_barrier(mem_flags::mem_device);
  if (t < 8) scratch[s * size + t] = sum;
  threadgroup_barrier(mem_flags::mem_device);
  if (t == 0) {
    float total = 0;
    for (uint j = 0; j < 8; ++j) total += scratch[s * size + j];
    y[s] = total;
  }
}

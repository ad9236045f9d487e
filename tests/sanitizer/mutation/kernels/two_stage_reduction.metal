#include <metal_stdlib>
using namespace metal;

// Maximum and minimum of rows, one threadgroup for several rows: simd functions, then one slot for each simdgroup.
kernel void two_stage_reduction(
    device const float* x, device float* y, constant uint& rows, constant uint& n,
    uint t [[thread_index_in_threadgroup]], uint size [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]],
    uint groups [[simdgroups_per_threadgroup]]) {
  threadgroup float most[4];
  threadgroup float least[4];
  for (uint row = 0; row < rows; ++row) {
    float high = -INFINITY;
    float low = INFINITY;
    for (uint i = t; i < n; i += size) {
      float v = x[row * n + i];
      high = max(high, v);
      low = min(low, v);
    }
    high = simd_max(high);
    low = simd_min(low);
    if (lane == 0) {
      most[group] = high;
      least[group] = low;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    high = simd_max(lane < groups ? most[lane] : -INFINITY);
    low = simd_min(lane < groups ? least[lane] : INFINITY);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t == 0) {
      y[row * 2] = high;
      y[row * 2 + 1] = low;
    }
  }
}

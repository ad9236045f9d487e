#include <metal_stdlib>
using namespace metal;

// Place of the largest element of a row; the first of equals.
kernel void argmax(
    device const float* x, device uint* y, constant uint& n, uint row [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]], uint size [[threads_per_threadgroup]]) {
  threadgroup float best[64];
  threadgroup uint place[64];
  float most = -INFINITY;
  uint at = 0;
  for (uint i = t; i < n; i += size) {
    if (x[row * n + i] > most) {
      most = x[row * n + i];
      at = i;
    }
  }
  best[t] = most;
  place[t] = at;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint step = 32; step > 0; step >>= 1) {
    if (t < step) {
      bool is_better = best[t + step] > best[t] || (best[t + step] == best[t] && place[t + step] < place[t]);
      if (is_better) {
        best[t] = best[t + step];
        place[t] = place[t + step];
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (t == 0) y[row] = place[0];
}

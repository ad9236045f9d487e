#include <metal_stdlib>
using namespace metal;

// One query against all keys: scores and their softmax in threadgroup memory, then the sum of the values.
kernel void attention(
    device const float* q, device const float* k, device const float* v, device float* y, constant uint& length,
    constant uint& width, uint row [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]],
    uint size [[threads_per_threadgroup]]) {
  threadgroup float query[16];
  threadgroup float scores[48];
  threadgroup float sums[64];
  if (t < width) query[t] = q[row * width + t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint j = t; j < length; j += size) {
    float score = 0;
    for (uint d = 0; d < width; ++d) score += query[d] * k[j * width + d];
    scores[j] = score * 0.25f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float most = -INFINITY;
  for (uint j = 0; j < length; ++j) most = max(most, scores[j]);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint j = t; j < length; j += size) scores[j] = exp(scores[j] - most);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint d = t % width;
  float sum = 0;
  for (uint j = t / width; j < length; j += 4) sum += scores[j] * v[j * width + d];
  sums[t] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t < width) {
    float total = 0;
    for (uint j = 0; j < length; ++j) total += scores[j];
    y[row * width + t] = (sums[t] + sums[t + width] + sums[t + 2 * width] + sums[t + 3 * width]) / total;
  }
}

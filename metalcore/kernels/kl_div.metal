// l = t (log t - x), with 0 where t is 0; l = e^t (t - x) where the target holds logarithms
// dx = -t g or -e^t g;  dt = (log t + 1 - x) g or e^t (t - x + 1) g
#include "exact_sum.h"
#include "wide.h"

constant uint IS_LOG = 1;       // the target holds logarithms
constant uint IS_ELEMENTS = 2;  // no reduction
constant uint WANTS_X = 4;
constant uint WANTS_TARGET = 8;

// A threadgroup takes `each` elements: it writes their losses, or their sum and the sum's rounding error.
template <typename T>
[[kernel]] void kl_div_forward(
    device const T* x [[buffer(0)]],
    device const T* target [[buffer(1)]],
    device T* losses [[buffer(2)]],
    device float* sums [[buffer(3)]],
    constant long& count [[buffer(4)]],
    constant long& each [[buffer(5)]],
    constant long& options [[buffer(6)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float values[32];
  threadgroup float rests[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint flags = uint(options);
  const long begin = block * each;
  const uint mine = uint(min(each, count - begin));
  x += begin;
  target += begin;

  ExactSum sum = {0.0f, 0.0f};
  for (uint i = lid; i < mine; i += group_size) {
    const float v = float(x[i]);
    const float t = float(target[i]);
    float loss;
    if (flags & IS_LOG) {
      loss = exp(t) * (t - v);
    } else {
      loss = (t == 0.0f ? 0.0f : t * log(t)) - t * v;
    }
    if (flags & IS_ELEMENTS) {
      losses[begin + i] = T(loss);
    } else {
      sum = added(sum, loss);
    }
  }
  if (!(flags & IS_ELEMENTS)) {
    const float all = group_added(sum, values, rests, at);
    if (lid == 0) {
      sums[block] = all;
    }
  }
}

// One threadgroup: the sum over blocks, over `divisor`.
template <typename T>
[[kernel]] void kl_div_finish(
    device const float* sums [[buffer(0)]],
    device T* loss [[buffer(1)]],
    constant long& blocks [[buffer(2)]],
    constant float& divisor [[buffer(3)]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float values[32];
  threadgroup float rests[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  ExactSum sum = {0.0f, 0.0f};
  for (uint i = lid; i < uint(blocks); i += group_size) {
    sum = added(sum, sums[i]);
  }
  const float all = group_added(sum, values, rests, at);
  if (lid == 0) {
    loss[0] = T(all / divisor);
  }
}

// g: one number, or one an element. A target of 0 has no gradient where it holds probabilities: NaN, as in torch.
template <typename T>
[[kernel]] void kl_div_backward(
    device const T* g [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device const T* target [[buffer(2)]],
    device T* dx [[buffer(3)]],
    device T* dtarget [[buffer(4)]],
    constant long& count [[buffer(5)]],
    constant long& each [[buffer(6)]],
    constant float& divisor [[buffer(7)]],
    constant long& options [[buffer(8)]],
    uint block [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  const uint flags = uint(options);
  const long begin = block * each;
  const uint mine = uint(min(each, count - begin));
  const float scale = float(g[0]) / divisor;
  for (uint i = lid; i < mine; i += group_size) {
    const float t = float(target[begin + i]);
    const float s = flags & IS_ELEMENTS ? float(g[begin + i]) : scale;
    const float p = flags & IS_LOG ? exp(t) : t;
    if (flags & WANTS_X) {
      dx[begin + i] = T(-p * s);
    }
    if (flags & WANTS_TARGET) {
      const float v = float(x[begin + i]);
      if (flags & IS_LOG) {
        dtarget[begin + i] = T(p * (t - v + 1.0f) * s);
      } else {
        dtarget[begin + i] = T((log(t) + t / t - v) * s);
      }
    }
  }
}

// The norm of many gradients together, and their scaling: g = g min(1, max_norm / (norm + 1e-6)).
// Norms are those of chunks, then of tensors, then of all: each sum has a fixed order.
#include "tensors.h"

constant int kind [[function_constant(0)]];        // 1: sum of |x|, 2: of x^2, 3: of |x|^power, 4: of x != 0, 5: max, 6: min
constant bool is_last [[function_constant(1)]];    // the values are norms, not sums over chunks

inline float power_of(float x, float power) {
  x = abs(x);
  switch (kind) {
    case 2: return x * x;
    case 3: return pow(x, power);
    case 4: return x == 0.0f ? 0.0f : 1.0f;
    default: return x;
  }
}

inline float root_of(float x, float power) {
  switch (kind) {
    case 2: return sqrt(x);
    case 3: return pow(x, 1.0f / power);
    default: return x;
  }
}

// A NaN wins, as in torch.
inline float joined(float a, float b) {
  if (kind == 5) {
    return a > b || isnan(a) ? a : b;
  }
  if (kind == 6) {
    return a < b || isnan(a) ? a : b;
  }
  return a + b;
}

inline float joined_by_simdgroup(float x) {
  if (kind == 5 || kind == 6) {
    for (ushort step = 16; step > 0; step /= 2) {
      x = joined(simd_shuffle_xor(x, step), x);
    }
    return x;
  }
  return simd_sum(x);
}

inline float start() { return kind == 6 ? INFINITY : 0.0f; }

// One simdgroup a chunk.
template <typename T>
[[kernel]] void norm_of_chunks(
    device const T* constant* grads [[buffer(0)]],
    device float* sums [[buffer(1)]],
    device const float* power [[buffer(2)]],
    device const long* chunks [[buffer(3)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const Chunk c = chunk_of(chunks, group);
  device const T* g = grads[c.tensor] + c.first;
  const float p = power[0];
  float sum = start();
  for (uint i = lane; i < c.count; i += 32) {
    sum = joined(sum, power_of(float(g[i]), p));
  }
  sum = joined_by_simdgroup(sum);
  if (lane == 0) {
    sums[group] = sum;
  }
}

// One simdgroup a tensor; then one in all, over the norms of the tensors.
template <typename T>
[[kernel]] void norm_of_parts(
    device const T* parts [[buffer(0)]],
    device const long* starts [[buffer(1)]],
    device T* norms [[buffer(2)]],
    device const float* power [[buffer(3)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const float p = power[0];
  const long first = starts[group];
  const uint count = uint(starts[group + 1] - first);
  parts += first;
  float sum = start();
  for (uint i = lane; i < count; i += 32) {
    sum = joined(sum, is_last ? power_of(parts[i], p) : parts[i]);
  }
  sum = root_of(joined_by_simdgroup(sum), p);
  if (lane == 0) {
    norms[group] = count == 0 ? 0.0f : sum;
  }
}

// limits: max_norm and the smallest number that is added to the norm.
template <typename T>
[[kernel]] void scale_by_norm(
    device T* constant* grads [[buffer(0)]],
    device const float* norm [[buffer(1)]],
    device const float* limits [[buffer(2)]],
    device const long* chunks [[buffer(3)]],
    uint group [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  const Chunk c = chunk_of(chunks, group);
  const float factor = limits[0] / (norm[0] + limits[1]);
  if (factor >= 1.0f) {
    return;
  }
  device T* g = grads[c.tensor] + c.first;
  for (uint i = lid; i < c.count; i += group_size) {
    g[i] = T(float(g[i]) * factor);
  }
}

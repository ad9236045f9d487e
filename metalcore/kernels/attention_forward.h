// Forward: o = softmax(scale q k^T) v by blocks of keys, with the largest score and the sum of a row so far (online
// softmax: arXiv:1805.02867; by blocks: arXiv:2205.14135). A lane has a query.
#pragma once
#include "attention.h"

// The largest score and the sum of exp(score - largest).
struct Softmax {
  float top;
  float sum;
  float low;  // what the sum lost, where is_exact

  float total() const { return is_exact ? sum + low : sum; }
};

// The sum times `keep`, and the weights of a block.
inline Softmax added(Softmax so_far, float keep, thread const float* weights) {
  const float kept = so_far.sum * keep;
  if (is_exact) {
    ExactSum sum = {kept, fma(so_far.sum, keep, -kept) + so_far.low * keep};
    for (uint j = 0; j < BLOCK; ++j) {
      sum = added(sum, weights[j]);
    }
    return {so_far.top, sum.value, sum.error};
  }
  float sum = 0.0f;
  for (uint j = 0; j < BLOCK; j += 8) {
    float part = 0.0f;
    for (uint e = j; e < j + 8; ++e) {
      part += weights[e];
    }
    sum += part;
  }
  return {so_far.top, kept + sum, 0.0f};
}

// Of BLOCK numbers, by four that do not wait for one another.
inline float largest(thread const float* s) {
  float top[4] = {s[0], s[1], s[2], s[3]};
  for (uint j = 4; j < BLOCK; j += 4) {
#pragma unroll
    for (uint e = 0; e < 4; ++e) {
      top[e] = max(top[e], s[j + e]);
    }
  }
  return max(max(top[0], top[1]), max(top[2], top[3]));
}

inline void drop(thread float* weights, Dropout how, uint query, uint from) {
  const uint threshold = how.threshold();
  const float growth = how.growth();
  for (uint j = 0; j < BLOCK; j += 4) {
    const uint4 random = philox(how.seed, uint4((from + j) / 4, query, how.head, 0u));
#pragma unroll
    for (uint e = 0; e < 4; ++e) {
      weights[j + e] = random[e] < threshold ? 0.0f : weights[j + e] * growth;
    }
  }
}

// What a row goes over, and how its scores are made. T: memory of queries, K: of keys and values.
template <typename T, typename K = T>
struct Over {
  Rows<K> first;   // keys, or queries
  Rows<K> second;  // values, or gradients of the result
  Scores<T> how;
  Dropout dropout;
  float scale;
  uint depth;
  uint width;
  threadgroup float* tile;
};

// sums = sum over keys of exp(score - top) value, for the keys of a span.
template <typename T, typename K, bool is_tiled>
inline Softmax attend(
    thread const float* mine, Sums sums, Softmax so_far, Over<T, K> over, uint query, Span span, Lane at) {
  const Rows<K> keys = over.first, values = over.second;
  float s[BLOCK];
  float low[BLOCK];
  for (uint from = span.begin; from < span.end; from += BLOCK) {
    const uint n = min(BLOCK, span.end - from);
    const bool is_edge = span.is_edge(from, n);
    if constexpr (is_tiled) {
      fill(over.tile, keys, from, n, over.depth, at);
      products<T>(mine, (threadgroup const float*)over.tile, over.depth, n, over.depth, s, low);
    } else {
      products<T>(mine, (device const float*)keys.base + from * keys.pitch, keys.pitch, n, over.depth, s, low);
    }
    shape(s, low, over.how, over.scale, from, n, is_edge, nullptr);
    const float top = max(so_far.top, largest(s));
    const float base = top == -INFINITY ? 0.0f : top;
    const float keep = weight_of<T>(so_far.top, 0.0f, base);
    for (uint j = 0; j < BLOCK; ++j) {
      s[j] = weight_of<T>(s[j], low[j], base);
    }
    so_far = added(so_far, keep, s);
    so_far.top = top;
    if (has_extras && over.dropout.probability > 0.0f) {
      drop(s, over.dropout, query, from);
    }
    const bool hides = is_edge || (has_extras && (over.how.flags & (HAS_BIAS | HAS_MASK)));
    if constexpr (is_tiled) {
      fill(over.tile, values, from, n, over.width, at);
      threadgroup const float* rows = over.tile;
      const bool skips = hides && has_special(rows, over.width, n, over.width, at.lane);
      add_rows<T, COLUMNS>(sums, keep, s, rows, over.width, n, over.width, skips);
    } else {
      device const float* rows = (device const float*)values.base + from * values.pitch;
      const bool skips = hides && has_special(rows, values.pitch, n, over.width, at.lane);
      add_rows<T, COLUMNS>(sums, keep, s, rows, values.pitch, n, over.width, skips);
    }
  }
  return so_far;
}

// A row that saw no key has the weights 0, the sum 1 and the logarithm -infinity.
inline float log_sum(Softmax found) { return found.sum == 0.0f ? -INFINITY : found.top + log(found.total()); }

inline Softmax kept(Softmax found) {
  Softmax empty = {0.0f, 1.0f, 0.0f};
  return found.sum == 0.0f ? empty : found;
}

// What a row writes: its result, what the result lost by rounding, and the softmax for the gradient.
template <typename T>
inline void finish(Sums sums, Softmax found, uint width, device T* out, device T* rest, bool keeps_rest) {
  const float inverse = 1.0f / found.sum;
  for (uint d = 0; d < width; ++d) {
    float value = found.sum == 0.0f ? 0.0f : divided(sums.high[d], found.sum, inverse);
    if (is_exact && isfinite(value) && found.sum != 0.0f) {  // what the division lost, and what its operands had
      value += (fma(-value, found.sum, sums.high[d]) + (sums.low[d] - value * found.low)) / found.sum;
    }
    const T rounded = T(value);
    out[d] = rounded;
    if (keeps_rest) {
      rest[d] = T(value - float(rounded));
    }
  }
}

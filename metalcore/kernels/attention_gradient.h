// Backward, without atomics: dq by blocks of queries, dk and dv by blocks of keys, so that the order of every sum is
// fixed. With p = exp(s - top) / sum of the forward pass and delta = do . o = sum of p dp:
//   dp = do v^T,  ds = p (dp - delta + dlse),  dq = scale ds k,  dk = scale ds^T q,  dv = p^T do  (arXiv:2205.14135)
#pragma once
#include "attention_forward.h"

constant uint FEW_KEYS = 256;  // up to which delta is summed over the keys

inline void drop_both(thread float* dp, thread float* lost, Dropout how, uint query, uint from) {
  drop(dp, how, query, from);
  if (is_exact) {
    drop(lost, how, query, from);
  }
}

// Of a row, for `beyond`: delta - dlse, and what that lost with its sign turned. The two may nearly cancel out.
inline void write_delta(device float* to, ExactSum delta, float dlse) {
  const ExactSum both = added(delta, -dlse);
  to[0] = both.value;
  to[1] = isfinite(both.error) ? -both.error : 0.0f;
}

// dp - delta + dlse
inline float beyond(float dp, float lost, float2 delta) {
  return (dp - delta.x) + ((is_exact ? lost : 0.0f) + delta.y);
}

// ds of a block of keys for the query of this lane, from its scores s and products dp; into dp. Before the derivative
// of the softcap and the scale it is the gradient of a bias. `lost`: what dp lost, where is_exact.
template <typename T>
inline void score_gradients(
    thread const float* s,
    thread const float* low,
    thread float* dp,
    thread const float* bends,
    Softmax row,
    float2 delta,
    Scores<T> how,
    Dropout dropout,
    uint query,
    uint from,
    float scale,
    bool of_bias,
    thread float* lost) {
  if (has_extras && dropout.probability > 0.0f) {
    drop_both(dp, lost, dropout, query, from);
  }
  const bool is_bent = has_extras && how.softcap > 0.0f && !of_bias;
  const float factor = 1.0f / row.sum;
  for (uint j = 0; j < BLOCK; ++j) {
    const float p = divided(weight_of<T>(s[j], low[j], row.top), row.sum, factor);
    const float slope = is_bent ? scale * bends[j] : scale;  // may be NaN where the key is not seen
    dp[j] = s[j] == -INFINITY ? 0.0f : p * beyond(dp[j], lost[j], delta) * slope;
  }
}

// Products of a query with n keys, into s, and of its do with their values, into dp; `low` and `lost`: what these lost.
// The keys are in the tile afterwards.
template <typename T, bool is_tiled>
inline void key_products(
    thread const float* mine, thread const float* g, Over<T> over, uint from, uint n, thread float* s,
    thread float* low, thread float* dp, thread float* lost, Lane at) {
  const Rows<T> keys = over.first, values = over.second;
  if constexpr (is_tiled) {
    fill(over.tile, values, from, n, over.width, at);
    products<T>(g, (threadgroup const float*)over.tile, over.width, n, over.width, dp, lost);
    fill(over.tile, keys, from, n, over.depth, at);
    products<T>(mine, (threadgroup const float*)over.tile, over.depth, n, over.depth, s, low);
  } else {
    products<T>(g, (device const float*)values.base + from * values.pitch, values.pitch, n, over.width, dp, lost);
    products<T>(mine, (device const float*)keys.base + from * keys.pitch, keys.pitch, n, over.depth, s, low);
  }
}

// delta as the sum of p dp over the keys of a span, and what it lost where is_exact.
template <typename T, bool is_tiled>
inline ExactSum summed_delta(
    thread const float* mine, thread const float* g, Over<T> over, uint query, Softmax row, Span span, Lane at) {
  float s[BLOCK];
  float low[BLOCK];
  float dp[BLOCK];
  float lost[BLOCK];
  ExactSum sum = {0.0f, 0.0f};
  ExactSum whole = {0.0f, 0.0f};
  const float factor = 1.0f / row.sum;
  for (uint from = span.begin; from < span.end; from += BLOCK) {
    const uint n = min(BLOCK, span.end - from);
    key_products<T, is_tiled>(mine, g, over, from, n, s, low, dp, lost, at);
    shape(s, low, over.how, over.scale, from, n, span.is_edge(from, n), nullptr);
    if (has_extras && over.dropout.probability > 0.0f) {
      drop_both(dp, lost, over.dropout, query, from);
    }
    for (uint j = 0; j < BLOCK; j += 8) {
      float part = 0.0f;
      for (uint e = j; e < j + 8; ++e) {
        const float p = divided(weight_of<T>(s[e], low[e], row.top), row.sum, factor);
        if (is_exact) {
          const float weight = s[e] == -INFINITY ? 0.0f : p;
          const float seen = s[e] == -INFINITY ? 0.0f : dp[e];
          const float product = weight * seen;
          sum = added(sum, product);
          sum.error += fma(weight, seen, -product) + (s[e] == -INFINITY ? 0.0f : weight * lost[e]);
          whole = added(whole, weight);
        } else {
          part = s[e] == -INFINITY ? part : fma(p, dp[e], part);
        }
      }
      sum.value += part;
    }
  }
  if (is_exact) {
    // Weights that are rounded do not add up to 1: what they lack would stay in dp - delta. A sink has the rest of them.
    const bool is_one = over.how.flags & HAS_SINKS || whole.value == 0.0f;
    const float by = is_one ? 1.0f : whole.value;
    const float found = sum.value / by;
    const float left = is_one ? 0.0f : found * whole.error;
    const float more = (fma(-found, by, sum.value) + (sum.error - left)) / by;
    return {found, isfinite(more) ? more : 0.0f};
  }
  return sum;
}

// delta as do . o, in the order of dp; `rest` is what o lost by its rounding.
template <typename T>
inline float product_delta(device const T* g, device const T* out, device const T* rest, bool keeps_rest, uint width) {
  float sum = 0.0f;
  const uint step = has_parts<T>() ? TERMS : width;
  for (uint begin = 0; begin < width; begin += step) {
    const uint end = min(begin + step, width);
    float part = 0.0f;
    for (uint d = begin; d < end; ++d) {
      part = fma(float(g[d]), float(out[d]) + (keeps_rest ? float(rest[d]) : 0.0f), part);
    }
    sum += part;
  }
  return sum;
}

// The block's share of dq, with the products of do and the values.
template <typename T, bool is_tiled>
inline void add_to_query(
    thread const float* mine, thread const float* g, Sums sums, Over<T> over, uint query, Softmax row, float2 delta,
    Span span, Lane at) {
  const Rows<T> keys = over.first;
  float s[BLOCK];
  float low[BLOCK];
  float dp[BLOCK];
  float lost[BLOCK];
  float bends[BLOCK];
  for (uint from = span.begin; from < span.end; from += BLOCK) {
    const uint n = min(BLOCK, span.end - from);
    const bool is_edge = span.is_edge(from, n);
    const bool hides = is_edge || (has_extras && (over.how.flags & (HAS_BIAS | HAS_MASK)));
    key_products<T, is_tiled>(mine, g, over, from, n, s, low, dp, lost, at);
    shape(s, low, over.how, over.scale, from, n, is_edge, bends);
    score_gradients(s, low, dp, bends, row, delta, over.how, over.dropout, query, from, over.scale, false, lost);
    if constexpr (is_tiled) {
      threadgroup const float* rows = over.tile;
      const bool skips = hides && has_special(rows, over.depth, n, over.depth, at.lane);
      add_rows<T, COLUMNS>(sums, 1.0f, dp, rows, over.depth, n, over.depth, skips);
    } else {
      device const float* rows = (device const float*)keys.base + from * keys.pitch;
      const bool skips = hides && has_special(rows, keys.pitch, n, over.depth, at.lane);
      add_rows<T, COLUMNS>(sums, 1.0f, dp, rows, keys.pitch, n, over.depth, skips);
    }
  }
}

inline uint picked(uint4 x, uint i) { return i < 2 ? (i == 0 ? x.x : x.y) : i == 2 ? x.z : x.w; }

// Shares of n queries of one head, from `from` on, in dk and dv of the key of this lane; `ds` gets those queries' ds.
// `stats` and `delta` are those of the head.
template <typename T, bool is_tiled>
inline void add_block_to_key(
    thread const float* k, thread const float* v, Sums dk, Sums dv, Over<T> over, device const float* stats,
    device const float* delta, uint key, uint from, uint n, bool is_edge, Lane at, thread float* ds) {
  const Rows<T> queries = over.first, grads = over.second;
  float s[BLOCK];
  float low[BLOCK];
  float lost[BLOCK];
  float bends[BLOCK];
  device const float* query_rows = (device const float*)queries.base + from * queries.pitch;
  device const float* grad_rows = (device const float*)grads.base + from * grads.pitch;
  if constexpr (is_tiled) {
    fill(over.tile, queries, from, n, over.depth, at);
    products<T>(k, (threadgroup const float*)over.tile, over.depth, n, over.depth, s, low);
    fill(over.tile, grads, from, n, over.width, at);
    products<T>(v, (threadgroup const float*)over.tile, over.width, n, over.width, ds, lost);
  } else {
    products<T>(k, query_rows, queries.pitch, n, over.depth, s, low);
    products<T>(v, grad_rows, grads.pitch, n, over.width, ds, lost);
  }
  const bool hides = is_edge || (has_extras && (over.how.flags & (HAS_BIAS | HAS_MASK)));
  shape(s, low, over.how, over.scale, from, n, is_edge, bends);
  const bool is_bent = has_extras && over.how.softcap > 0.0f;
  const bool drops = has_extras && over.dropout.probability > 0.0f;
  for (uint i = 0; i < n; ++i) {
    const float total = stats[2 * (from + i) + 1];
    const float p = divided(weight_of<T>(s[i], low[i], stats[2 * (from + i)]), total, 1.0f / total);
    float growth = 1.0f;
    if (drops) {
      const uint4 random = philox(over.dropout.seed, uint4(key / 4, from + i, over.dropout.head, 0u));
      growth = picked(random, key % 4) < over.dropout.threshold() ? 0.0f : over.dropout.growth();
    }
    const float2 both = float2(delta[2 * (from + i)], delta[2 * (from + i) + 1]);
    const float slope = is_bent ? over.scale * bends[i] : over.scale;
    ds[i] = s[i] == -INFINITY ? 0.0f : p * beyond(ds[i] * growth, lost[i] * growth, both) * slope;
    s[i] = p * growth;
  }
  if constexpr (is_tiled) {
    threadgroup const float* rows = over.tile;
    const bool skips_grads = hides && has_special(rows, over.width, n, over.width, at.lane);
    add_rows<T, COLUMNS>(dv, 1.0f, s, rows, over.width, n, over.width, skips_grads);
    fill(over.tile, queries, from, n, over.depth, at);
    const bool skips_queries = hides && has_special(rows, over.depth, n, over.depth, at.lane);
    add_rows<T, COLUMNS>(dk, 1.0f, ds, rows, over.depth, n, over.depth, skips_queries);
  } else {
    const bool skips_grads = hides && has_special(grad_rows, grads.pitch, n, over.width, at.lane);
    add_rows<T, COLUMNS>(dv, 1.0f, s, grad_rows, grads.pitch, n, over.width, skips_grads);
    const bool skips_queries = hides && has_special(query_rows, queries.pitch, n, over.depth, at.lane);
    add_rows<T, COLUMNS>(dk, 1.0f, ds, query_rows, queries.pitch, n, over.depth, skips_queries);
  }
}

// Shares of all queries of a span.
template <typename T, bool is_tiled>
inline void add_to_key(
    thread const float* k, thread const float* v, Sums dk, Sums dv, Over<T> over, device const float* stats,
    device const float* delta, uint key, Span span, Lane at) {
  float ds[BLOCK];
  for (uint from = span.begin; from < span.end; from += BLOCK) {
    const uint n = min(BLOCK, span.end - from);
    add_block_to_key<T, is_tiled>(k, v, dk, dv, over, stats, delta, key, from, n, span.is_edge(from, n), at, ds);
  }
}

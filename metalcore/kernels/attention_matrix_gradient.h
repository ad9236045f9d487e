// Backward by 8x8 matrices: attention_matrix.h has the pieces, attention_gradient.h the mathematics.
#pragma once
#include "attention_matrix.h"

template <uint C>
inline void clear_matrices(thread Matrix* rows) {
  MATRIX_UNROLL
  for (uint f = 0; f < C / 8; ++f) {
    rows[f] = zeros();
  }
}

// Of N keys from `from` on: weights p of the lane's row and dp = do v^T, both with dropout's growth in dp; the keys are in
// the tile afterwards. A key that is not seen has p = 0 and dp = 0. Returns whether all of them are finite.
template <typename T, uint C, uint N>
inline bool weights_and_products(
    thread const Matrix* mine, thread const Matrix* g, thread Matrix* p, thread Matrix* dp, thread float* bends,
    Over<T> over, uint query, uint count, Softmax row, uint from, uint n, Place at, Lane lane) {
  const Rows<T> keys = over.first, values = over.second;
  fill_matrix<C, N>(over.tile, values, from, n, over.width, lane);
  matrix_products<C, N>(g, over.tile, dp);
  const bool is_finite = fill_matrix<C, N>(over.tile, keys, from, n, over.depth, lane);
  matrix_products<C, N>(mine, over.tile, p);
  const float factor = 1.0f / row.sum;
  MATRIX_UNROLL
  for (uint i = 0; i < N / 4; ++i) {
    const uint key = from + 8 * (i / 2) + at.column + i % 2;
    const float x = score_at(p[i / 2].thread_elements()[i % 2], over.how, over.scale, key, count, bends[i]);
    const bool is_seen = x != -INFINITY;
    p[i / 2].thread_elements()[i % 2] = is_seen ? divided(exp_minus<T>(row.top - x), row.sum, factor) : 0.0f;
    const float grown = dp[i / 2].thread_elements()[i % 2] * growth_at(over.dropout, query, key);
    dp[i / 2].thread_elements()[i % 2] = is_seen ? grown : 0.0f;
  }
  return simd_all(is_finite);
}

// delta as the sum of p dp over the keys of a span.
template <typename T, uint C, uint N>
inline float matrix_delta(
    thread const Matrix* mine, thread const Matrix* g, Over<T> over, uint query, uint count, Softmax row, Span span,
    Place at, Lane lane) {
  Matrix p[N / 8];
  Matrix dp[N / 8];
  float bends[N / 4];
  float sum = 0.0f;
  for (uint from = span.begin; from < span.end; from += N) {
    const uint n = min(N, span.end - from);
    weights_and_products<T, C, N>(mine, g, p, dp, bends, over, query, count, row, from, n, at, lane);
    MATRIX_UNROLL
    for (uint i = 0; i < N / 4; ++i) {
      sum = fma(p[i / 2].thread_elements()[i % 2], dp[i / 2].thread_elements()[i % 2], sum);
    }
  }
  return row_sum(sum);
}

// dq of 8 queries.
template <typename T, uint C, uint N>
inline void add_to_query_matrices(
    thread const Matrix* mine, thread const Matrix* g, thread Matrix* sums, Over<T> over, uint query, uint count,
    Softmax row, float2 delta, Span span, threadgroup float* room, Place at, Lane lane) {
  Matrix p[N / 8];
  Matrix dp[N / 8];
  float bends[N / 4];
  for (uint from = span.begin; from < span.end; from += N) {
    const uint n = min(N, span.end - from);
    const bool is_finite = weights_and_products<T, C, N>(
        mine, g, p, dp, bends, over, query, count, row, from, n, at, lane);
    MATRIX_UNROLL
    for (uint i = 0; i < N / 4; ++i) {
      const float weight = p[i / 2].thread_elements()[i % 2];
      const float ds = weight * ((dp[i / 2].thread_elements()[i % 2] - delta.x) + delta.y) * over.scale * bends[i];
      p[i / 2].thread_elements()[i % 2] = weight == 0.0f ? 0.0f : ds;
    }
    add_weighted<C, N>(sums, p, over.tile, room, all_simdgroups(is_finite, room, lane), at, lane);
  }
}

// Shares of the queries of one head in dk and dv of 8 keys; `stats` and `delta` are those of the head.
template <typename T, uint C, uint N>
inline void add_to_key_matrices(
    thread const Matrix* k, thread const Matrix* v, thread Matrix* dk, thread Matrix* dv, Over<T> over,
    device const float* stats, device const float* delta, uint key, uint count, Span span, threadgroup float* room,
    Place at, Lane lane) {
  const Rows<T> queries = over.first, grads = over.second;
  Matrix p[N / 8];
  Matrix ds[N / 8];
  float bends[N / 4];
  for (uint from = span.begin; from < span.end; from += N) {
    const uint n = min(N, span.end - from);
    const bool are_queries = simd_all(fill_matrix<C, N>(over.tile, queries, from, n, over.depth, lane));
    matrix_products<C, N>(k, over.tile, p);
    const bool are_grads = simd_all(fill_matrix<C, N>(over.tile, grads, from, n, over.width, lane));
    matrix_products<C, N>(v, over.tile, ds);
    MATRIX_UNROLL
    for (uint i = 0; i < N / 4; ++i) {
      const uint query = from + 8 * (i / 2) + at.column + i % 2;
      const uint known = min(query, count - 1);
      const float x = score_at(p[i / 2].thread_elements()[i % 2], over.how, over.scale, query, count, bends[i]);
      const float weight = x == -INFINITY ? 0.0f : exp_minus<T>(stats[2 * known] - x) / stats[2 * known + 1];
      const float growth = growth_at(over.dropout, query, key);
      const float dp = ds[i / 2].thread_elements()[i % 2] * growth;
      const float slope = weight * ((dp - delta[2 * known]) + delta[2 * known + 1]) * over.scale * bends[i];
      ds[i / 2].thread_elements()[i % 2] = weight == 0.0f ? 0.0f : slope;
      p[i / 2].thread_elements()[i % 2] = weight * growth;
    }
    add_weighted<C, N>(dv, p, over.tile, room, all_simdgroups(are_grads, room, lane), at, lane);
    fill_matrix<C, N>(over.tile, queries, from, n, over.depth, lane);
    add_weighted<C, N>(dk, ds, over.tile, room, all_simdgroups(are_queries, room, lane), at, lane);
  }
}

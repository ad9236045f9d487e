// Attention by 8x8 matrices, for GPUs: a simdgroup has 8 rows, whose elements lie in the registers of its lanes as
// simdgroup_matrix has them; keys and values come by tiles in threadgroup memory. Mathematics and names are those of
// attention_forward.h and attention_gradient.h.
#pragma once
#include "attention_gradient.h"

#include <metal_simdgroup_matrix>

// Matrices of a row lie in registers on a GPU, where loops over them are unrolled; elsewhere that is only more code.
#ifdef METALCORE_DEVICE
#define MATRIX_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MATRIX_UNROLL _Pragma("clang loop unroll(disable)")
#endif

using Matrix = simdgroup_matrix<float, 8, 8>;

// Where a lane's two elements of a matrix stand.
struct Place {
  uint row;
  uint column;  // and the next one
};

inline Place place_of(uint lane) {
  return {(lane >> 2 & 4) + (lane >> 1 & 3), (lane >> 2 & 2) * 2 + (lane & 1) * 2};
}

inline Matrix zeros() { return make_filled_simdgroup_matrix<float, 8, 8>(0.0f); }

// Over the four lanes that share a row.
inline float row_sum(float x) {
  x += simd_shuffle_xor(x, ushort(1));
  return x + simd_shuffle_xor(x, ushort(8));
}

inline float row_max(float x) {
  x = max(x, simd_shuffle_xor(x, ushort(1)));
  return max(x, simd_shuffle_xor(x, ushort(8)));
}

// The lane's row of memory as C / 8 matrices, 0 from `width` on.
template <uint C, typename T>
inline void read_matrices(thread Matrix* to, device const T* row, uint width, Place at) {
MATRIX_UNROLL
  for (uint f = 0; f < C / 8; ++f) {
    const uint d = 8 * f + at.column;
    to[f].thread_elements()[0] = d < width ? float(row[d]) : 0.0f;
    to[f].thread_elements()[1] = d + 1 < width ? float(row[d + 1]) : 0.0f;
  }
}

template <uint C, typename T>
inline void write_matrices(device T* row, thread const Matrix* from, float factor, uint width, Place at) {
MATRIX_UNROLL
  for (uint f = 0; f < C / 8; ++f) {
    const uint d = 8 * f + at.column;
    if (d < width) {
      row[d] = T(from[f].thread_elements()[0] * factor);
    }
    if (d + 1 < width) {
      row[d + 1] = T(from[f].thread_elements()[1] * factor);
    }
  }
}

// What those lost by their rounding.
template <uint C, typename T>
inline void write_rest(device T* row, thread const Matrix* from, float factor, uint width, Place at) {
MATRIX_UNROLL
  for (uint i = 0; i < C / 4; ++i) {
    const uint d = 8 * (i / 2) + at.column + i % 2;
    const float value = from[i / 2].thread_elements()[i % 2] * factor;
    if (d < width) {
      row[d] = T(value - float(T(value)));
    }
  }
}

// N rows from `from` on, of which n are there, as a tile whose rows are C apart, 0 elsewhere. Returns whether all
// numbers that this simdgroup read are finite. All threads of the threadgroup are here.
template <uint C, uint N, typename T>
inline bool fill_matrix(threadgroup float* tile, Rows<T> rows, uint from, uint n, uint width, Lane at) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  bool is_finite = true;
  for (uint j = at.group; j < N; j += at.groups) {
    device const T* row = rows.base + rows.offset(from + min(j, n - 1));
    for (uint d = at.lane; d < C; d += 32) {
      const float x = j < n && d < width ? widened(row[d], rows.scale) : 0.0f;
      is_finite = is_finite && isfinite(x);
      tile[j * C + d] = x;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return is_finite;
}

// found[j] = rows . tile rows 8 j to 8 j + 7
template <uint C, uint N>
inline void matrix_products(thread const Matrix* rows, threadgroup const float* tile, thread Matrix* found) {
MATRIX_UNROLL
  for (uint j = 0; j < N / 8; ++j) {
    found[j] = zeros();
MATRIX_UNROLL
    for (uint f = 0; f < C / 8; ++f) {
      Matrix other;
      simdgroup_load(other, tile + 8 * j * C + 8 * f, C, ulong2(0), true);
      simdgroup_multiply_accumulate(found[j], rows[f], other, found[j]);
    }
  }
}

// sums += weights tile
template <uint C, uint N>
inline void add_matrices(thread Matrix* sums, thread const Matrix* weights, threadgroup const float* tile) {
MATRIX_UNROLL
  for (uint f = 0; f < C / 8; ++f) {
MATRIX_UNROLL
    for (uint j = 0; j < N / 8; ++j) {
      Matrix other;
      simdgroup_load(other, tile + 8 * j * C + 8 * f, C);
      simdgroup_multiply_accumulate(sums[f], weights[j], other, sums[f]);
    }
  }
}

// The same one by one, where a weight of 0 takes nothing: a NaN of a masked row stays out. `room` has 8 x N numbers for
// each simdgroup.
template <uint C, uint N>
inline void add_seen(
    thread Matrix* sums,
    thread const Matrix* weights,
    threadgroup const float* tile,
    threadgroup float* room,
    Place at,
    Lane lane) {
  threadgroup float* own = room + lane.group * 8 * N;
MATRIX_UNROLL
  for (uint j = 0; j < N / 8; ++j) {
    simdgroup_store(weights[j], own + 8 * j, N);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
MATRIX_UNROLL
  for (uint f = 0; f < C / 8; ++f) {
    for (uint j = 0; j < N; ++j) {
      const float weight = own[at.row * N + j];
      if (weight != 0.0f) {
        threadgroup const float* row = tile + j * C + 8 * f + at.column;
        sums[f].thread_elements()[0] = fma(weight, row[0], sums[f].thread_elements()[0]);
        sums[f].thread_elements()[1] = fma(weight, row[1], sums[f].thread_elements()[1]);
      }
    }
  }
}

template <uint C, uint N>
inline void add_weighted(
    thread Matrix* sums,
    thread const Matrix* weights,
    threadgroup const float* tile,
    threadgroup float* room,
    bool is_plain,
    Place at,
    Lane lane) {
  if (is_plain) {
    add_matrices<C, N>(sums, weights, tile);
  } else {
    add_seen<C, N>(sums, weights, tile, room, at, lane);
  }
}

// What dropout makes of a weight: 0, or its growth.
inline float growth_at(Dropout how, uint query, uint key) {
  if (!has_extras || how.probability <= 0.0f) {
    return 1.0f;
  }
  const uint4 random = philox(how.seed, uint4(key / 4, query, how.head, 0u));
  return picked(random, key % 4) < how.threshold() ? 0.0f : how.growth();
}

// Whether it is true of every simdgroup of the threadgroup.
inline bool all_simdgroups(bool is_true, threadgroup float* room, Lane at) {
  if (at.lane == 0) {
    room[at.group] = is_true ? 1.0f : 0.0f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  bool all = true;
  for (uint i = 0; i < at.groups; ++i) {
    all = all && room[i] != 0.0f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return all;
}

// A score from its product, for row `at` of the other side, of `count`; -infinity where it is not seen.
template <typename T>
inline float score_at(float product, Scores<T> how, float scale, uint at, uint count, thread float& bend) {
  float x = product * scale;
  bool is_seen = at < count && int(at) >= how.first && int(at) <= how.last;
  bend = 1.0f;
  if (has_extras) {
    if (how.softcap > 0.0f) {
      const float t = capped_part<T>(x, how.softcap);
      x = how.softcap * t;
      bend = fma(-t, t, 1.0f);
    }
    if (how.flags & HAS_SLOPES) {
      x = fma(-how.slope, abs(float(how.place - int(at))), x);
    }
    const long from = long(min(at, max(count, 1u) - 1)) * how.step;
    if (how.flags & HAS_BIAS) {
      const float added = float(how.bias[from]);
      x += added;
      is_seen = is_seen && added != -INFINITY;
    }
    if (how.flags & HAS_MASK) {
      is_seen = is_seen && how.mask[from];
    }
  }
  return is_seen ? x : -INFINITY;
}

// exp(score - top) value over the keys of a span, as `attend` of attention_forward.h, N keys at a time.
template <typename T, uint C, uint N>
inline Softmax attend_matrices(
    thread const Matrix* mine, thread Matrix* sums, Softmax so_far, Over<T> over, uint query, uint count, Span span,
    threadgroup float* room, Place at, Lane lane) {
  const Rows<T> keys = over.first, values = over.second;
  Matrix s[N / 8];
  for (uint from = span.begin; from < span.end; from += N) {
    const uint n = min(N, span.end - from);
    fill_matrix<C, N>(over.tile, keys, from, n, over.depth, lane);
    matrix_products<C, N>(mine, over.tile, s);
    float top = so_far.top;
    float bend;
MATRIX_UNROLL
    for (uint i = 0; i < N / 4; ++i) {
      const uint key = from + 8 * (i / 2) + at.column + i % 2;
      const float x = score_at(s[i / 2].thread_elements()[i % 2], over.how, over.scale, key, count, bend);
      s[i / 2].thread_elements()[i % 2] = x;
      top = max(top, x);
    }
    top = row_max(top);
    const float base = top == -INFINITY ? 0.0f : top;
    const float keep = exp_minus<T>(base - so_far.top);
    float sum = 0.0f;
MATRIX_UNROLL
    for (uint i = 0; i < N / 4; ++i) {
      const float p = exp_minus<T>(base - s[i / 2].thread_elements()[i % 2]);
      sum += p;
      const uint key = from + 8 * (i / 2) + at.column + i % 2;
      s[i / 2].thread_elements()[i % 2] = p * growth_at(over.dropout, query, key);
    }
    so_far = {top, fma(so_far.sum, keep, row_sum(sum)), 0.0f};
MATRIX_UNROLL
    for (uint f = 0; f < C / 8; ++f) {
      sums[f].thread_elements()[0] *= keep;
      sums[f].thread_elements()[1] *= keep;
    }
    const bool is_finite = simd_all(fill_matrix<C, N>(over.tile, values, from, n, over.width, lane));
    add_weighted<C, N>(sums, s, over.tile, room, all_simdgroups(is_finite, room, lane), at, lane);
  }
  return so_far;
}

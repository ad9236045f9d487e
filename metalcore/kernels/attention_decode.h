// Attention of few rows over many keys, as in decoding: lanes are the elements of a row, so that keys and values are
// read once, as they lie. The rows are the queries of all query heads of a key head; keys are taken 32 at a time.
#pragma once
#include "attention_forward.h"

constant bool is_whole [[function_constant(2)]];  // depth and width are both C: no lane is idle

constant uint ROWS = 8;  // at most, in a simdgroup
#ifdef METALCORE_WIDE
constant uint VALUE_ROWS = 2;  // that take a value at once: 16 of 32 registers hold their sums
#else
constant uint VALUE_ROWS = 1;
#endif

// Of a row: where its bias or mask stands, and which keys it sees.
template <typename T>
struct ShortRow {
  device const T* bias;
  device const bool* mask;
  float slope;
  int place;
  int first;
  int last;
};

// The rows of a simdgroup: query r % queries of head r / queries. Pointers are those of the first row.
template <typename T>
struct ShortRows {
  uint flags;
  uint queries;
  device const T* bias;
  device const bool* mask;
  device const float* slopes;
  long mask_head;
  long mask_query;
  int place;
  int low;
  int high;

  ShortRow<T> at(uint r) const {
    const uint head = r / queries;
    const int query = int(r % queries);
    const long from = head * mask_head + query * mask_query;
    return {
        flags & HAS_BIAS ? bias + from : bias,
        flags & HAS_MASK ? mask + from : mask,
        flags & HAS_SLOPES ? slopes[head] : 0.0f,
        query + place,
        query + low,
        query + high};
  }
};

// What holds for all rows of a simdgroup.
struct Short {
  uint flags;
  uint rows;
  float scale;
  float softcap;
  uint depth;
  uint width;
  long mask_key;
};

// Asks for a row that is read soon: rows of keys and of values take turns, which hardware does not foresee.
template <typename K>
inline void ask_for(Rows<K> rows, uint j, uint width) {
#ifdef METALCORE_ENGINE
  device const char* row = (device const char*)(rows.base + rows.offset(j));
  for (uint at = 0; at < width * uint(sizeof(K)); at += 64) {
    __builtin_prefetch(row + at);
  }
#endif
}

template <typename K>
inline float element(Rows<K> rows, device const K* row, uint d, uint width) {
  return is_whole || d < width ? widened(row[rows.element(d)], rows.scale) : 0.0f;
}

// The score of key `from` + lane from the product x, or -infinity.
template <typename T>
inline float short_score(float x, Short of, ShortRow<T> row, uint from, uint n, uint lane) {
  const int key = int(from + lane);
  if (has_extras) {
    const long at = long(from + min(lane, n - 1)) * of.mask_key;
    float added = of.flags & HAS_SLOPES ? -row.slope * abs(float(row.place - key)) : 0.0f;
    if (of.flags & HAS_BIAS) {
      added += float(row.bias[at]);
    }
    x = of.softcap > 0.0f ? fma(of.softcap, capped_part<T>(x * of.scale, of.softcap), added) : fma(x, of.scale, added);
    if (of.flags & HAS_MASK) {
      x = row.mask[at] ? x : -INFINITY;
    }
    x = added == -INFINITY ? -INFINITY : x;  // a NaN would stay
  } else {
    x *= of.scale;
  }
  return lane < n && key >= row.first && key <= row.last ? x : -INFINITY;
}

// Adds the values of n keys to the sums of R rows that lie side by side; a value is widened once for all of them. Asks
// for the next keys up to `end`, where that is not 0.
template <uint C, uint R, typename K>
inline void add_values(
    thread float* sums,
    threadgroup const float* weights,
    Short of,
    Rows<K> keys,
    Rows<K> values,
    uint from,
    uint n,
    uint end,
    uint lane) {
  constexpr uint parts = C / 32;
  float part[R * parts];
#pragma unroll
  for (uint c = 0; c < R * parts; ++c) {
    part[c] = 0.0f;
  }
  for (uint j = 0; j < n; ++j) {
    if (end != 0) {
      ask_for(keys, min(from + 32 + j, end - 1), of.depth);
    }
    device const K* value = values.base + values.offset(from + j);
    float weight[R];
    bool is_seen = true;
#pragma unroll
    for (uint i = 0; i < R; ++i) {
      weight[i] = weights[i * 32 + j];
      is_seen = is_seen && weight[i] != 0.0f;
    }
    if (is_seen) {
#pragma unroll
      for (uint c = 0; c < parts; ++c) {
        const float x = element(values, value, c * 32 + lane, of.width);
#pragma unroll
        for (uint i = 0; i < R; ++i) {
          part[i * parts + c] = fma(weight[i], x, part[i * parts + c]);
        }
      }
    } else if (R > 1) {  // a NaN of a masked row stays out
#pragma unroll
      for (uint i = 0; i < R; ++i) {
        if (weight[i] != 0.0f) {
#pragma unroll
          for (uint c = 0; c < parts; ++c) {
            const float x = element(values, value, c * 32 + lane, of.width);
            part[i * parts + c] = fma(weight[i], x, part[i * parts + c]);
          }
        }
      }
    }
  }
#pragma unroll
  for (uint c = 0; c < R * parts; ++c) {
    sums[c] += part[c];
  }
}

// sums[r * C / 32 + c] of each row: elements c * 32 + lane. `weights` has room for 32 numbers of each row.
template <typename T, typename K, uint C>
inline void attend_short(
    thread const float* mine,
    thread float* sums,
    thread Softmax* found,
    ShortRows<T> rows,
    Short of,
    Rows<K> keys,
    Rows<K> values,
    uint begin,
    uint end,
    threadgroup float* weights,
    uint lane) {
  constexpr uint parts = C / 32;
  for (uint from = begin; from < end; from += 32) {
    const uint n = min(32u, end - from);
    for (uint j = 0; j < n; ++j) {
      device const K* key = keys.base + keys.offset(from + j);
      ask_for(values, from + j, of.width);
      float k[parts];
#pragma unroll
      for (uint c = 0; c < parts; ++c) {
        k[c] = element(keys, key, c * 32 + lane, of.depth);
      }
      for (uint r = 0; r < of.rows; ++r) {
        float sum = 0.0f;
#pragma unroll
        for (uint c = 0; c < parts; ++c) {
          sum = fma(mine[r * parts + c], k[c], sum);
        }
        sum = simd_sum(sum);
        if (lane == 0) {
          weights[r * 32 + j] = sum;
        }
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint r = 0; r < of.rows; ++r) {
      const float score = lane < n ? weights[r * 32 + lane] : 0.0f;
      const float x = short_score(score, of, rows.at(r), from, n, lane);
      const float top = max(found[r].top, simd_max(x));
      const float base = top == -INFINITY ? 0.0f : top;
      const float keep = exp_minus<T>(base - found[r].top);
      const float p = exp_minus<T>(base - x);
      found[r] = {top, fma(found[r].sum, keep, simd_sum(p)), 0.0f};
      weights[r * 32 + lane] = p;
#pragma unroll
      for (uint c = 0; c < parts; ++c) {
        sums[r * parts + c] *= keep;
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    constexpr uint some = C > 128 ? 1 : VALUE_ROWS;
    uint r = 0;
    for (; r + some <= of.rows; r += some) {
      add_values<C, some>(sums + r * parts, weights + r * 32, of, keys, values, from, n, r == 0 ? end : 0, lane);
    }
    for (; r < of.rows; ++r) {
      add_values<C, 1>(sums + r * parts, weights + r * 32, of, keys, values, from, n, r == 0 ? end : 0, lane);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// Results of a row, lane by lane, or its part of them where the keys are split.
template <typename T, uint C>
inline void finish_short(
    thread const float* sums, Softmax found, uint width, device T* out, device T* rest, bool keeps_rest, uint lane) {
  for (uint c = 0; c * 32 + lane < width; ++c) {
    const float value = found.sum == 0.0f ? 0.0f : sums[c] / found.sum;
    const T rounded = T(value);
    out[c * 32 + lane] = rounded;
    if (keeps_rest) {
      rest[c * 32 + lane] = T(value - float(rounded));
    }
  }
}

inline void finish_part(thread const float* sums, Softmax found, uint width, device float* part, uint lane) {
  if (lane == 0) {
    part[0] = found.top;
    part[1] = found.sum;
  }
  for (uint c = 0; c * 32 + lane < width; ++c) {
    part[2 + c * 32 + lane] = sums[c];
  }
}

// What the mLSTM kernels share. For each head, with m the stabiliser (arXiv:2405.04517, section 2.3):
//   m_t = max(log f_t + m_(t-1), i_t),  F = exp(log f_t + m_(t-1) - m_t),  I = exp(i_t - m_t),  log f = logsigmoid(f)
//   C_t = F C_(t-1) + I k v^T,  n_t = F n_(t-1) + I k,  r = q n_t / sqrt(depth)
//   h_t = q C_t / sqrt(depth) / (max(|r|, exp(-m_t)) + eps)
// By chunks of rows, with b the sum of log f inside of a chunk and C the state before it:
//   h_t = (sum over s <= t of A_ts v_s + w_t q C / sqrt(depth)) / ...,  A_ts = q k / sqrt(depth) exp(b_t - b_s + i_s - m_t)
#pragma once
#include "float_float_exp.h"

constant bool is_sigmoid [[function_constant(0)]];  // the input gate is a sigmoid: no stabiliser, m is 0

#ifdef METALCORE_DOUBLE
constant uint ROWS = 4;
#else
constant uint ROWS = 8;  // of a tile
#endif

constant uint TERMS = 16;

// Threadgroup memory for simdgroups that have SLICE elements of a row each, of up to ROOM in all.
template <uint ROOM, uint SLICE>
constexpr uint partial_size() {
  return ROOM > SLICE ? ROOM / SLICE * ROWS * 32 : 64;
}

// Planes of `gates`: a number for each head and row.
constant uint STABILISER = 0;
constant uint ROW = 1;  // b_t - m_t, as a sum of two
constant uint ROW_LOW = 2;
constant uint KEY = 3;  // i_s - b_s
constant uint KEY_LOW = 4;
constant uint READ = 5;   // w_t = exp(b_t + m before the chunk - m_t): how much of the state a row reads
constant uint WRITE = 6;  // exp(b at the end - b_s + i_s - m at the end): how much of a row the state keeps
constant uint FORGET = 7;
constant uint FORGET_LOW = 8;
constant uint INPUT = 9;
constant uint INPUT_LOW = 10;
constant uint STABILISER_LOW = 11;

// Planes of `norms`.
constant uint NORMALISER = 0;   // r, or 0 where exp(-m) is larger
constant uint DENOMINATOR = 1;  // max(|r|, exp(-m)) + eps
constant uint DENOMINATOR_LOW = 2;

// Planes of `deltas`.
constant uint NORMALISER_GRADIENT = 0;
constant uint STABILISER_GRADIENT = 1;
constant uint NORMALISER_GRADIENT_LOW = 2;
constant uint LEAST_GRADIENT = 3;  // through exp(-m), where it is larger than |r|

constant float LEAST_GATE = -1e4f;  // exp of it is 0 beside any other gate, and sums of it keep their digits

// min(x, 0) - log(1 + exp(-|x|))
inline FloatFloat log_sigmoid(float given) {
  const float x = given < LEAST_GATE ? LEAST_GATE : given;  // max would lose a NaN
  return FloatFloat{min(x, 0.0f), 0.0f} + -log_one_plus(exp_of({-abs(x), 0.0f}));
}

// The rows from `from` on, of which n are there; the others are 0. A row is times its factor. All threads of the
// threadgroup are here.
template <typename T, typename F>
inline void fill_rows(threadgroup float* tile, device const T* rows, uint width, uint from, uint n, F factor, Lane at) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint e = at.group; e < ROWS; e += at.groups) {
    const bool is_there = from + e < n;
    device const T* row = rows + ulong(is_there ? from + e : 0) * width;
    const float times = is_there ? factor.at(from + e) : 0.0f;
    for (uint d = at.lane; d < width; d += 32) {
      tile[e * width + d] = is_there ? float(row[d]) * times : 0.0f;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

inline void clear(thread float* sums) {
#pragma unroll
  for (uint e = 0; e < ROWS; ++e) {
    sums[e] = 0.0f;
  }
}

// sums[e] += mine . row e of the tile, for the elements of this simdgroup's slice.
// Sums of TERMS products are added to sums, which then have fewer roundings; of half of the rows at a time, so that both
// stay in registers.
inline void add_products(
    thread float* sums, thread const float* mine, threadgroup const float* tile, uint width, uint begin, uint count) {
#pragma unroll
  for (uint half_of = 0; half_of < ROWS; half_of += ROWS / 2) {
    threadgroup const float* row = tile + half_of * width + begin;
    for (uint from = 0; from < count; from += TERMS) {
      const uint to = min(from + TERMS, count);
      float part[ROWS / 2];
#pragma unroll
      for (uint e = 0; e < ROWS / 2; ++e) {
        part[e] = 0.0f;
      }
      if (to - from == TERMS) {
#pragma unroll
        for (uint d = 0; d < TERMS; ++d) {
#pragma unroll
          for (uint e = 0; e < ROWS / 2; ++e) {
            part[e] = fma(mine[from + d], row[e * width + from + d], part[e]);
          }
        }
      } else {
#pragma clang loop unroll(disable)
        for (uint d = from; d < to; ++d) {
#pragma unroll
          for (uint e = 0; e < ROWS / 2; ++e) {
            part[e] = fma(mine[d], row[e * width + d], part[e]);
          }
        }
      }
#pragma unroll
      for (uint e = 0; e < ROWS / 2; ++e) {
        sums[half_of + e] += part[e];
      }
    }
  }
}

// sums[e] of all simdgroups; simdgroup g has those of rows g, g + groups, ... afterwards.
inline void join_slices(thread float* sums, threadgroup float* partial, Lane at) {
  if (at.groups == 1) {
    return;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint e = 0; e < ROWS; ++e) {
    partial[(at.group * ROWS + e) * 32 + at.lane] = sums[e];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint e = 0; e < ROWS; ++e) {
    if (e % at.groups == at.group) {
      float sum = 0.0f;
      for (uint g = 0; g < at.groups; ++g) {
        sum += partial[(g * ROWS + e) * 32 + at.lane];
      }
      sums[e] = sum;
    }
  }
}

// exp(b_t - b_s + i_s - m_t) for s <= t.
inline float decay_of(float row, float row_low, float key, float key_low) {
  const FloatFloat x = two_sum(row, key);
  return to_float(exp_of({x.high, x.low + (row_low + key_low)}));
}

// exp(-m) of a row; below -87 there would be no number for it, and a numerator over it is nothing beside others.
inline FloatFloat least_below(device const float* gates, ulong plane, ulong t) {
  const FloatFloat m = {gates[STABILISER * plane + t], gates[STABILISER_LOW * plane + t]};
  return exp_of(m.high < -87.0f ? from_float(87.0f) : -m);
}

// What a row of a tile is times.
struct One {
  float at(uint) const { return 1.0f; }
};

// A block of 32 rows of a chunk: a lane has one.
struct Block {
  uint chunk;  // which one
  uint first;  // its first row
  uint rows;   // of the chunk that are there
  uint row;    // this lane's, counted in the chunk
  uint last;   // keys that a row of this block may see
  uint blocks;  // of all chunks

  // Where the chunk's matrix of rows x rows begins.
  ulong matrix(uint head, uint length, uint size) const {
    return (head * ulong((length + size - 1) / size) + chunk) * size * size;
  }
};

inline Block block_of(uint index, uint size, uint length, uint lane) {
  const uint blocks = (size + 31) / 32;
  const uint chunk = index / blocks;
  const uint first = chunk * size;
  const uint rows = min(size, length - first);
  const uint from = index % blocks * 32;
  return {chunk, first, rows, from + lane, min(rows, from + 32), (length + size - 1) / size * blocks};
}

inline float sigmoid_of(float x) {
  const float e = exp(-abs(x));
  return x < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e);
}

// Matrices of small integers with a scale for each row and group of columns: w = (q - zero) scale.
// 4 bits: two values in a byte, the low half first, from 0 to 15. 8 bits: signed, without a zero.
// A thread takes one byte at a time, so E = 8 / bits columns.
#pragma once
#include "exact_sum.h"
#include "wide.h"

constant bool whole_groups [[function_constant(0)]];  // a simdgroup's bytes, side by side, are of one group
constant bool whole_words [[function_constant(1)]];   // a row of codes has a multiple of 4 bytes
constant constexpr uint LANES = 32;

template <uint E>
inline float code_of(uchar byte, uint e) {
  return E == 1 ? float(char(byte)) : float((byte >> (4 * e)) & 15);
}

// S: the type of scales and zeros.
template <typename S>
struct Quantized {
  device const uchar* codes;
  device const S* scales;
  device const S* zeros;
  uint bytes;        // in a row
  uint group_bytes;  // in a group; the last one of a row may have fewer
  uint groups;       // in a row
};

// y[m, row] = sum over k of x[m, k] w[row, k], for M rows of x from `first` on; one simdgroup. Each value of w is made
// once and used M times.
template <typename T, typename S, uint E, uint M>
inline void multiply_rows(
    device const T* x, Quantized<S> w, device T* y, long first, long rows, long outs, long row, uint lane) {
  const long width = long(w.bytes) * E;
  device const uchar* codes = w.codes + row * w.bytes;
  device const S* scales = w.scales + row * w.groups;
  device const S* zeros = w.zeros + row * w.groups;
  device const T* from[M];
  ExactSum sums[M];  // they are few and long
  for (uint m = 0; m < M; m++) {
    from[m] = x + min(first + m, rows - 1) * width;  // the last block may have fewer rows: they are computed twice
    sums[m] = {0.0f, 0.0f};
  }
  if (whole_groups) {
    for (uint start = 0, group = 0; start < w.bytes; start += w.group_bytes, group++) {
      const float scale = float(scales[group]);
      const float zero = E == 1 ? 0.0f : float(zeros[group]);
      const uint end = min(start + w.group_bytes, w.bytes);
      float parts[M] = {};
      for (uint i = start + lane; i < end; i += LANES) {
        const uchar byte = codes[i];
        for (uint e = 0; e < E; e++) {
          const float value = code_of<E>(byte, e) - zero;
          for (uint m = 0; m < M; m++) {
            parts[m] = fma(value, float(from[m][i * E + e]), parts[m]);
          }
        }
      }
      for (uint m = 0; m < M; m++) {
        sums[m] = added_product(sums[m], scale, parts[m]);  // the scale comes last: small integers times x lose little
      }
    }
  } else {
    for (uint i = lane; i < w.bytes; i += LANES) {
      const uint group = i / w.group_bytes;
      const float scale = float(scales[group]);
      const float zero = E == 1 ? 0.0f : float(zeros[group]);
      for (uint m = 0; m < M; m++) {
        float part = 0.0f;
        for (uint e = 0; e < E; e++) {
          part = fma(code_of<E>(codes[i], e) - zero, float(from[m][i * E + e]), part);
        }
        sums[m] = added_product(sums[m], scale, part);
      }
    }
  }
  for (uint m = 0; m < M; m++) {
    const float sum = rounded(simd_added(sums[m]));
    if (lane == 0 && first + m < rows) {
      y[(first + m) * outs + row] = T(sum);
    }
  }
}

// Products of many rows: 32 columns of a matrix are laid out in threadgroup memory, STEPS numbers of each at a time, and
// used for up to ROWS rows. A thread has a column of its own there, so that no barrier is needed.
constant constexpr uint STEPS = 64, ROWS = 64, SHORT = 8;

// sum over from <= k < to of a[k] tile[k, lane], of one row and of two: two sums of 32 lanes and a row of the tile fill
// the registers of a CPU
template <typename T>
inline float short_sum(threadgroup const float* tile, device const T* a, uint from, uint to, uint lane) {
  float sum = 0.0f;
  for (uint k = from; k < to; k++) {
    sum = fma(float(a[k]), tile[k * LANES + lane], sum);
  }
  return sum;
}

template <typename T>
inline float2 short_sums(
    threadgroup const float* tile, device const T* a0, device const T* a1, uint from, uint to, uint lane) {
  float s0 = 0.0f, s1 = 0.0f;
  for (uint k = from; k < to; k++) {
    const float w = tile[k * LANES + lane];
    s0 = fma(float(a0[k]), w, s0);
    s1 = fma(float(a1[k]), w, s1);
  }
  return float2(s0, s1);
}

// sums[m, lane] += sum over k of a[m, k] tile[k, lane]. Sums of short sums, two by two, are more exact than a long one.
template <typename T>
inline void add_products(
    threadgroup const float* tile,
    threadgroup float* sums,
    device const T* a,
    long stride,
    uint rows,
    uint steps,
    uint lane) {
  uint m = 0;
  for (; m + 2 <= rows; m += 2) {
    device const T* a0 = a + m * stride;
    device const T* a1 = a0 + stride;
    float2 total = 0.0f;
    for (uint from = 0; from < steps; from += 2 * SHORT) {
      const uint middle = min(from + SHORT, steps), to = min(from + 2 * SHORT, steps);
      const float2 first = short_sums(tile, a0, a1, from, middle, lane);
      total += first + short_sums(tile, a0, a1, middle, to, lane);
    }
    sums[m * LANES + lane] += total.x;
    sums[(m + 1) * LANES + lane] += total.y;
  }
  if (m < rows) {
    a += m * stride;
    float total = 0.0f;
    for (uint from = 0; from < steps; from += 2 * SHORT) {
      const uint middle = min(from + SHORT, steps), to = min(from + 2 * SHORT, steps);
      const float first = short_sum(tile, a, from, middle, lane);
      total += first + short_sum(tile, a, middle, to, lane);
    }
    sums[m * LANES + lane] += total;
  }
}

inline void clear(threadgroup float* sums, uint rows, uint lane) {
  for (uint m = 0; m < rows; m++) {
    sums[m * LANES + lane] = 0.0f;
  }
}

// y[m, column] = sums[m, lane]
template <typename T>
inline void write_sums(threadgroup const float* sums, device T* y, long columns, uint rows, uint lane) {
  for (uint m = 0; m < rows; m++) {
    y[m * columns + lane] = T(sums[m * LANES + lane]);
  }
}

// y = x w^T: a thread has a row of w. One simdgroup for 32 rows of w and ROWS rows of x.
template <typename T, typename S, uint E>
inline void multiply_tile(
    device const T* x,
    Quantized<S> w,
    device T* y,
    threadgroup float* tile,
    threadgroup float* sums,
    uint rows,
    long outs,
    long first,
    uint lane) {
  const long row = min(first + lane, outs - 1);  // idle threads take the last row
  const long width = long(w.bytes) * E;
  device const uchar* codes = w.codes + row * w.bytes;
  clear(sums, rows, lane);
  uint group = 0, next = 0;
  float scale = 0.0f, zero = 0.0f;
  uint word = 0;
  for (uint start = 0; start < w.bytes; start += STEPS / E) {
    const uint count = min(STEPS / E, w.bytes - start);
    for (uint i = 0; i < count; i++) {
      if (start + i == next) {
        scale = float(w.scales[row * w.groups + group]);
        zero = E == 1 ? 0.0f : float(w.zeros[row * w.groups + group]);
        group++;
        next += w.group_bytes;
      }
      // Rows lie far apart: four bytes of one at a time are a quarter of the cache misses.
      if (whole_words) {
        device const packed_uchar4* four = (device const packed_uchar4*)(codes + start + i);
        word = i % 4 == 0 ? as_type<uint>(uchar4(*four)) : word >> 8;
      } else {
        word = codes[start + i];
      }
      for (uint e = 0; e < E; e++) {
        tile[(i * E + e) * LANES + lane] = (code_of<E>(uchar(word), e) - zero) * scale;
      }
    }
    add_products(tile, sums, x + start * E, width, rows, count * E, lane);
  }
  if (first + lane < outs) {
    write_sums(sums, y + first, outs, rows, lane);
  }
}

// dx = g w: a thread has a column of w.
template <typename T, typename S, uint E>
inline void multiply_tile_back(
    device const T* g,
    Quantized<S> w,
    device T* dx,
    threadgroup float* tile,
    threadgroup float* sums,
    uint rows,
    long outs,
    uint first,
    uint lane) {
  const long width = long(w.bytes) * E;
  const uint column = min(first + lane, uint(width) - 1);
  const uint at = column / E, e = column % E;
  const uint group = (whole_groups ? first / E : at) / w.group_bytes;
  clear(sums, rows, lane);
  for (uint start = 0; start < outs; start += STEPS) {
    const uint count = uint(min(long(STEPS), outs - start));
    for (uint i = 0; i < count; i++) {
      const long row = start + i;
      const float scale = float(w.scales[row * w.groups + group]);
      const float zero = E == 1 ? 0.0f : float(w.zeros[row * w.groups + group]);
      tile[i * LANES + lane] = (code_of<E>(w.codes[row * w.bytes + at], e) - zero) * scale;
    }
    add_products(tile, sums, g + start, outs, rows, count, lane);
  }
  if (first + lane < width) {
    write_sums(sums, dx + first, width, rows, lane);
  }
}

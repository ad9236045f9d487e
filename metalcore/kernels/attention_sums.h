// Products and sums of attention. A lane has a row of its own in private arrays; rows of the other side are the same
// for all lanes and are taken BLOCK at a time, so that no sum goes across lanes.
#pragma once
#include "exact_sum.h"

// Of small problems, where a plain sum's error may happen to be near nothing: scores have a second number each, what
// their sums and roundings lost.
constant bool is_exact [[function_constant(3)]];

constant uint BLOCK = 32;  // rows of the other side at a time
#ifdef METALCORE_WIDE
constant uint AT_ONCE = 4;  // rows; 32 registers of 16 lanes
constant uint AT_ONCE_IN_HALF = 8;  // without parts, which take registers too
constant uint COLUMNS = 8;  // of a sum
#else
constant uint AT_ONCE = 2;
constant uint AT_ONCE_IN_HALF = 2;  // 4 rows would be 16 sums of 8 lanes: all registers that there are
constant uint COLUMNS = 2;
#endif

constant uint TERMS = 8;  // of a product at a time

// Whether terms are summed TERMS at a time before they are added to a sum, so that it has fewer roundings. The sums of
// half precision have digits to spare. Likewise how many rows are.
template <typename T>
constexpr bool has_parts() {
  return sizeof(T) > 2;
}
template <typename T>
constexpr uint rows_at_once() {
  return has_parts<T>() ? 16 : BLOCK;
}

template <typename P>
inline ExactSum exact_product(thread const float* mine, P row, uint depth) {
  ExactSum sum = {0.0f, 0.0f};
#pragma clang loop unroll(disable)
  for (uint d = 0; d < depth; ++d) {
    sum = added_product(sum, mine[d], row[d]);
  }
  return sum;
}

// s[j] = mine . row j, some rows at once. Rows from n on are not there: their scores are 0. `low` is filled where is_exact.
template <typename T, typename P>
inline void products(
    thread const float* mine, P rows, ulong pitch, uint n, uint depth, thread float* s, thread float* low) {
  constexpr uint N = has_parts<T>() ? AT_ONCE : AT_ONCE_IN_HALF;
  if (is_exact) {
    for (uint j = 0; j < BLOCK; ++j) {
      ExactSum found = {0.0f, 0.0f};
      if (j < n) {
        found = exact_product(mine, rows + j * pitch, depth);
      }
      s[j] = found.value;
      low[j] = found.error;
    }
    return;
  }
  for (uint j = 0; j < n; j += N) {
    P at[N];
    float sum[N];
    float part[N];
#pragma unroll
    for (uint e = 0; e < N; ++e) {
      at[e] = rows + min(j + e, n - 1) * pitch;
      sum[e] = 0.0f;
      part[e] = 0.0f;
    }
    for (uint from = 0; from < depth; from += TERMS) {
      const uint to = min(from + TERMS, depth);
      if (to - from == TERMS) {  // with no loop around it: a compiler then keeps all sums in registers
        thread const float* here = mine + from;
#pragma unroll
        for (uint d = 0; d < TERMS; ++d) {
#pragma unroll
          for (uint e = 0; e < N; ++e) {
            part[e] = fma(here[d], at[e][from + d], part[e]);
          }
        }
      } else {
#pragma clang loop unroll(disable)
        for (uint d = from; d < to; ++d) {
#pragma unroll
          for (uint e = 0; e < N; ++e) {
            part[e] = fma(mine[d], at[e][d], part[e]);
          }
        }
      }
      if (has_parts<T>()) {
#pragma unroll
        for (uint e = 0; e < N; ++e) {
          sum[e] += part[e];
          part[e] = 0.0f;
        }
      }
    }
#pragma unroll
    for (uint e = 0; e < N; ++e) {
      s[j + e] = has_parts<T>() ? sum[e] : part[e];
    }
  }
  for (uint j = (n + N - 1) / N * N; j < BLOCK; ++j) {
    s[j] = 0.0f;
  }
}

// sums[d] = keep * sums[d] + sum over j of weights[j] row_j[d], N columns at once. `skips`: a weight of 0 takes
// nothing, so that a NaN of a masked row stays out.
template <uint N, bool skips, typename P>
inline void add_columns(thread float* sums, float keep, thread const float* weights, P rows, ulong pitch, uint n) {
  float part[N];
#pragma unroll
  for (uint e = 0; e < N; ++e) {
    part[e] = 0.0f;
  }
#pragma clang loop unroll(disable)
  for (uint j = 0; j < n; ++j) {
    const float weight = weights[j];
#pragma unroll
    for (uint e = 0; e < N; ++e) {
      part[e] = fma(weight, skips && weight == 0.0f ? 0.0f : rows[e], part[e]);
    }
    rows += pitch;
  }
#pragma unroll
  for (uint e = 0; e < N; ++e) {
    sums[e] = fma(sums[e], keep, part[e]);
  }
}

// Columns are the inner loop of the two: the other way round a compiler keeps sums in registers that parts need.
template <typename T, uint N, bool skips, typename P>
inline void add_all_columns(
    thread float* sums, float keep, thread const float* weights, P rows, ulong pitch, uint n, uint width) {
  for (uint from = 0; from < n; from += rows_at_once<T>()) {
    const uint count = min(rows_at_once<T>(), n - from);
    P first = rows + from * pitch;
    uint d = 0;
    for (; d + N <= width; d += N) {
      add_columns<N, skips>(sums + d, keep, weights + from, first + d, pitch, count);
    }
    for (; d < width; ++d) {
      add_columns<1, skips>(sums + d, keep, weights + from, first + d, pitch, count);
    }
    keep = 1.0f;
  }
}

// Private sums of one row, and what they lost where is_exact.
struct Sums {
  thread float* high;
  thread float* low;
};

template <typename P>
inline void add_exactly(
    Sums sums, float keep, thread const float* weights, P rows, ulong pitch, uint n, uint width) {
  for (uint d = 0; d < width; ++d) {
    const float kept = sums.high[d] * keep;
    ExactSum sum = {kept, fma(sums.high[d], keep, -kept) + sums.low[d] * keep};
    for (uint j = 0; j < n; ++j) {
      const float row = weights[j] == 0.0f ? 0.0f : rows[j * pitch + d];
      sum = added_product(sum, weights[j], row);
    }
    sums.high[d] = sum.value;
    sums.low[d] = sum.error;
  }
}

// Whether a number of these rows is NaN or an infinity: only then a weight of 0 must be kept away from them, which takes
// as long as the sum itself. The answer is that of all lanes.
template <typename P>
inline bool has_special(P rows, ulong pitch, uint n, uint width, uint lane) {
  bool is_special = false;
  for (uint j = 0; j < n; ++j) {
    for (uint d = lane; d < width; d += 32) {
      is_special |= !isfinite(rows[d]);
    }
    rows += pitch;
  }
  return simd_any(is_special);
}

template <typename T, uint N, typename P>
inline void add_rows(
    Sums sums, float keep, thread const float* weights, P rows, ulong pitch, uint n, uint width, bool skips) {
  if (is_exact) {
    add_exactly(sums, keep, weights, rows, pitch, n, width);
  } else if (skips) {  // rare: less code, which a sanitizer's checks make many times as long
    add_all_columns<T, (N < 2 ? N : 2), true>(sums.high, keep, weights, rows, pitch, n, width);
  } else {
    add_all_columns<T, N, false>(sums.high, keep, weights, rows, pitch, n, width);
  }
}

// a / b, by what 1 / b gives and one correction: as right as a division, in a fifth of the time.
inline float divided(float a, float b, float inverse) {
  const float found = a * inverse;
  const float better = fma(fma(-found, b, a), inverse, found);
  return isfinite(better) ? better : found;
}

// Whether all lanes may read words there.
template <typename P>
inline bool is_aligned(P at) {
  return simd_all(ulong(at) % 4 == 0);
}

// Two numbers of 16 bits in one word.
template <typename T>
inline float2 pair_at(device const T* at) {
  return float2(as_type<vec<T, 2>>(*(device const uint*)at));
}
inline float2 pair_at(device const float* at) { return {at[0], at[1]}; }

template <typename T>
inline void read_row(thread float* to, device const T* from, uint n) {
  uint d = 0;
  if (sizeof(T) == 2 && is_aligned(from)) {
    for (; d + 2 <= n; d += 2) {
      const float2 pair = pair_at(from + d);
      to[d] = pair.x;
      to[d + 1] = pair.y;
    }
  }
  for (; d < n; ++d) {
    to[d] = float(from[d]);
  }
}

// An infinity leaves a NaN behind as what it lost.
inline float rounded(Sums from, uint d) {
  return is_exact && isfinite(from.high[d]) ? from.high[d] + from.low[d] : from.high[d];
}

template <typename T>
inline void write_row(device T* to, Sums from, uint n) {
  for (uint d = 0; d < n; ++d) {
    to[d] = T(rounded(from, d));
  }
}

inline void clear_row(Sums row, uint n) {
  for (uint d = 0; d < n; ++d) {
    row.high[d] = 0.0f;
    if (is_exact) {
      row.low[d] = 0.0f;
    }
  }
}

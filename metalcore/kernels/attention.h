// What the attention kernels share. A lane has a row of its own, a query or a key, in private arrays; rows of the other
// side are the same for all lanes and are taken BLOCK at a time, so that no sum goes across lanes. Scores, weights and
// sums are float, whatever memory holds.
#pragma once
#include "exponential.h"
#include "fp8.h"
#include "group.h"

constant bool has_extras [[function_constant(0)]];  // masks, softcap, ALiBi or dropout; `flags` says which

// Of small problems, where a plain sum's error may happen to be near nothing: scores have a second number each, what
// their sums and roundings lost.
constant bool is_exact [[function_constant(3)]];

constant bool is_parted [[function_constant(4)]];  // elements of a row do not lie one after the other

constant uint BLOCK = 32;  // rows of the other side at a time
#ifdef METALCORE_WIDE
constant uint AT_ONCE = 4;  // rows; 32 registers of 16 lanes
constant uint COLUMNS = 8;  // of a sum
#else
constant uint AT_ONCE = 2;
constant uint COLUMNS = 2;
#endif

// Terms that are summed before they are added to a sum, so that it has fewer roundings: of products, and of rows. The
// sums of half precision have digits to spare.
template <typename T>
constexpr uint terms_at_once() {
  return sizeof(T) > 2 ? 8 : 16;
}
template <typename T>
constexpr uint rows_at_once() {
  return sizeof(T) > 2 ? 16 : BLOCK;
}

constant uint HAS_BIAS = 1;
constant uint HAS_MASK = 2;
constant uint HAS_SLOPES = 4;
constant uint SLOPES_BY_BATCH = 8;
constant uint HAS_SINKS = 16;
constant uint QUERY_ROWS_FIRST = 32;  // queries lie as (batch, rows, heads, depth), not (batch, heads, rows, depth)
constant uint KEY_ROWS_FIRST = 64;
constant uint IS_PACKED = 128;  // the rows of a simdgroup are those of all query heads of a key head
constant uint KEEPS_REST = 256;

// How far the rows of an array lie apart, and where a head's begin.
struct Layout {
  ulong batch;
  ulong head;
  ulong row;
};

inline Layout layout_of(ulong rows, ulong heads, ulong depth, bool is_rows_first) {
  return {rows * heads * depth, is_rows_first ? depth : rows * depth, is_rows_first ? heads * depth : depth};
}

// A sum and what it lost by rounding.
struct Pair {
  float high;
  float low;
};

inline Pair plus(Pair a, float b) {
  const float sum = a.high + b;
  const float part = sum - a.high;
  return {sum, a.low + ((a.high - (sum - part)) + (b - part))};
}

template <typename P>
inline Pair exact_product(thread const float* mine, P row, uint depth) {
  Pair sum = {0.0f, 0.0f};
#pragma clang loop unroll(disable)
  for (uint d = 0; d < depth; ++d) {
    const float product = mine[d] * row[d];
    sum = plus(sum, product);
    sum.low += fma(mine[d], row[d], -product);
  }
  return sum;
}

// s[j] = mine . row j, N rows at once. Rows from n on are not there: their scores are 0. `low` is filled where is_exact.
template <typename T, uint N, typename P>
inline void products(
    thread const float* mine, P rows, ulong pitch, uint n, uint depth, thread float* s, thread float* low) {
  constexpr uint terms = terms_at_once<T>();
  if (is_exact) {
    for (uint j = 0; j < BLOCK; ++j) {
      Pair found = {0.0f, 0.0f};
      if (j < n) {
        found = exact_product(mine, rows + j * pitch, depth);
      }
      s[j] = found.high;
      low[j] = found.low;
    }
    return;
  }
  for (uint j = 0; j < n; j += N) {
    P at[N];
    float sum[N];
#pragma unroll
    for (uint e = 0; e < N; ++e) {
      at[e] = rows + min(j + e, n - 1) * pitch;
      sum[e] = 0.0f;
    }
    for (uint from = 0; from < depth; from += terms) {
      const uint to = min(from + terms, depth);
      float part[N];
#pragma unroll
      for (uint e = 0; e < N; ++e) {
        part[e] = 0.0f;
      }
      if (to - from == terms) {  // with no loop around it: a compiler then keeps all sums in registers
        thread const float* here = mine + from;
#pragma unroll
        for (uint d = 0; d < terms; ++d) {
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
#pragma unroll
      for (uint e = 0; e < N; ++e) {
        sum[e] += part[e];
      }
    }
#pragma unroll
    for (uint e = 0; e < N; ++e) {
      s[j + e] = sum[e];
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
    Pair sum = {kept, fma(sums.high[d], keep, -kept) + sums.low[d] * keep};
    for (uint j = 0; j < n; ++j) {
      const float row = weights[j] == 0.0f ? 0.0f : rows[j * pitch + d];
      const float product = weights[j] * row;
      sum = plus(sum, product);
      sum.low += fma(weights[j], row, -product);
    }
    sums.high[d] = sum.high;
    sums.low[d] = sum.low;
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
  } else if (skips) {
    add_all_columns<T, N, true>(sums.high, keep, weights, rows, pitch, n, width);
  } else {
    add_all_columns<T, N, false>(sums.high, keep, weights, rows, pitch, n, width);
  }
}

// Philox4x32-10 (Salmon et al., SC 2011): four random words for a place, the same in every kernel.
inline uint4 philox(uint2 key, uint4 counter) {
  for (uint round = 0; round < 10; ++round) {
    const uint high0 = mulhi(0xD2511F53u, counter.x);
    const uint high1 = mulhi(0xCD9E8D57u, counter.z);
    counter = uint4(high1 ^ counter.y ^ key.x, 0xCD9E8D57u * counter.z, high0 ^ counter.w ^ key.y, 0xD2511F53u * counter.x);
    key += uint2(0x9E3779B9u, 0xBB67AE85u);
  }
  return counter;
}

// Weights that are dropped with a probability; the others grow, so that the mean stays. A place is a key, a query and a
// head of the batch.
struct Dropout {
  uint2 seed;
  float probability;
  uint head;  // counted through the batch

  uint threshold() const { return uint(probability * 4294967296.0f); }
  float growth() const { return 1.0f / (1.0f - probability); }
};

inline Dropout dropout_of(device const long* seed, float probability, uint head) {
  if (!has_extras || probability <= 0.0f) {
    return {uint2(0u), 0.0f, head};
  }
  const ulong bits = ulong(seed[0]);
  return {uint2(uint(bits), uint(bits >> 32)), probability, head};
}

// What is added to the scores of one lane, or takes them away.
template <typename T>
struct Scores {
  uint flags;
  float softcap;
  float slope;
  device const T* bias;     // of this lane's row
  device const bool* mask;  // likewise
  long step;                // from one row of the other side to the next in both
  int place;                // the row of the other side that stands at distance 0, for ALiBi
  int first;                // those that may be seen: first to last
  int last;
};

// tanh(x / cap), which is +-1 from 10 on; past 44 that of a GPU is said to be NaN.
template <typename T>
inline float capped_part(float x, float cap) {
  const float y = x / cap;
  const float z = y > 15.0f ? 15.0f : y < -15.0f ? -15.0f : y;
  return sizeof(T) > 2 ? tanh(z) : fast::tanh(z);
}

// 1 - t^2 for t = tanh((x + low) / cap), with all digits where t is near 1.
inline float exact_bend(float x, float low, float cap, float t) {
  const float y = x / cap;
  const float left = (fma(-y, cap, x) + low) / cap;
  const float e = exp_minus(2.0f * min(abs(y), 15.0f));
  return 4.0f * e / ((1.0f + e) * (1.0f + e)) * fma(-2.0f * t, left, 1.0f);
}

// A score that is not seen.
inline void hide(thread float& s, thread float& low, bool is_seen) {
  s = is_seen ? s : -INFINITY;
  if (is_exact) {
    low = is_seen && isfinite(s) ? low : 0.0f;
  }
}

// scale * (product + low) + added, rounded once; what that loses stays in `low`.
inline float scaled(float product, thread float& low, float scale, float added) {
  if (!is_exact) {
    return fma(product, scale, added);
  }
  const float first = product * scale;
  Pair sum = {first, fma(product, scale, -first) + low * scale};
  sum = plus(sum, added);
  low = abs(sum.high) < 1e30f ? sum.low : 0.0f;  // a mask of -3e38 hides what was there, as where sums are plain
  return sum.high;
}

// cap tanh((x + low) / cap) with what its rounding lost, by (1 - e) / (1 + e) with e = exp(-2 |x| / cap) as a sum of
// three: 1 + r + c, times 2^-k.
inline Pair exact_cap(float x, float low, float cap) {
  const float y = min(abs(x / cap), 15.0f);
  const float y_low = y < 15.0f ? (fma(-y, cap, abs(x)) + (x < 0.0f ? -low : low)) / cap : 0.0f;
  const float k = rint(y * 2.885390f);  // 2 / log(2)
  Pair r = {fma(k, 0.693359375f, -2.0f * y), fma(-2.0f, y_low, 0.0f)};
  r = plus(r, k * -2.12194440e-4f);
  float c = fma(fma(r.high, 1.9841270e-4f, 1.3888889e-3f), r.high, 8.3333333e-3f);
  c = fma(fma(fma(c, r.high, 4.1666667e-2f), r.high, 0.16666667f), r.high, 0.5f) * r.high * r.high;
  const float power = ldexp(1.0f, -int(k));
  Pair e = {1.0f, 0.0f};
  e = plus(e, r.high);
  e = {e.high * power, (e.low + fma(r.low, 1.0f + r.high, c)) * power};
  Pair above = {1.0f, 0.0f};
  above = plus(above, -e.high);
  above = plus(above, -e.low);
  Pair below = {1.0f, 0.0f};
  below = plus(below, e.high);
  below = plus(below, e.low);
  const float t = above.high / below.high;
  const float t_low = (fma(-t, below.high, above.high) + (above.low - t * below.low)) / below.high;
  const float found = cap * t;
  const float lost = fma(cap, t, -found) + cap * t_low;
  return {x < 0.0f ? -found : found, x < 0.0f ? -lost : lost};
}

// Scores from products of BLOCK rows from `from` on, of which n are there: scaled, bent, with what is added to them.
// `bends` gets the derivative of the softcap where it is not null. `is_edge`: not all of them may be seen.
template <typename T>
inline void shape(
    thread float* s,
    thread float* low,
    Scores<T> how,
    float scale,
    uint from,
    uint n,
    bool is_edge,
    thread float* bends) {
  if (has_extras) {
    float added[BLOCK];
    for (uint j = 0; j < BLOCK; ++j) {
      added[j] = how.flags & HAS_SLOPES ? -how.slope * abs(float(how.place - int(from + j))) : 0.0f;
    }
    if (how.flags & HAS_BIAS) {
      for (uint j = 0; j < n; ++j) {
        added[j] += float(how.bias[long(from + j) * how.step]);
      }
    }
    if (how.softcap > 0.0f) {
      for (uint j = 0; j < BLOCK; ++j) {
        const float x = scaled(s[j], low[j], scale, 0.0f);
        const float t = capped_part<T>(x, how.softcap);
        const float bend = is_exact ? exact_bend(x, low[j], how.softcap, t) : fma(-t, t, 1.0f);
        if (is_exact && isfinite(x)) {
          const Pair sum = plus(exact_cap(x, low[j], how.softcap), added[j]);
          s[j] = sum.high;
          low[j] = abs(sum.high) < 1e30f ? sum.low : 0.0f;
        } else {
          s[j] = fma(how.softcap, t, added[j]);
          low[j] *= bend;
        }
        if (bends != nullptr) {
          bends[j] = bend;
        }
      }
    } else {
      for (uint j = 0; j < BLOCK; ++j) {
        s[j] = scaled(s[j], low[j], scale, added[j]);
      }
    }
    if (how.flags & HAS_MASK) {
      for (uint j = 0; j < n; ++j) {
        hide(s[j], low[j], how.mask[long(from + j) * how.step]);
      }
    }
    if (how.flags & HAS_BIAS) {  // -infinity masks, whatever the score is: NaN and infinity would stay NaN
      for (uint j = 0; j < n; ++j) {
        hide(s[j], low[j], added[j] != -INFINITY);
      }
    }
  } else {
    for (uint j = 0; j < BLOCK; ++j) {
      s[j] = scaled(s[j], low[j], scale, 0.0f);
    }
  }
  if (is_edge) {
    for (uint j = 0; j < BLOCK; ++j) {
      const int at = int(from + j);
      hide(s[j], low[j], j < n && at >= how.first && at <= how.last);
    }
  }
}

// exp(score - top)
template <typename T>
inline float weight_of(float s, float low, float top) {
  return exp_minus<T>(is_exact ? (top - s) - low : top - s);
}

// a / b, by what 1 / b gives and one correction: as right as a division, in a fifth of the time.
inline float divided(float a, float b, float inverse) {
  const float found = a * inverse;
  const float better = fma(fma(-found, b, a), inverse, found);
  return isfinite(better) ? better : found;
}

// A number of memory as float; one of 8 bits has a scale.
template <typename K>
inline float widened(K x, float) {
  return float(x);
}
inline float widened(uchar x, float scale) { return e4m3(x) * scale; }

// Rows of keys or values of one head.
template <typename K>
struct Rows {
  device const K* base;
  ulong pitch;              // from a row to the next
  device const int* table;  // of blocks; null: the rows lie one after the other
  uint block;               // rows in a block
  float scale;
  ulong block_pitch;        // from a block to the next
  uint step;                // where is_parted: elements of a part, which lie `inner` apart, and parts `outer`
  ulong inner;
  ulong outer;

  ulong offset(uint j) const {
    return table == nullptr ? j * pitch : ulong(table[j / block]) * block_pitch + j % block * pitch;
  }
  ulong element(uint d) const { return is_parted ? d / step * outer + d % step * inner : d; }
};

// n rows from `from` on as floats, one after the other. All threads of the threadgroup are here.
template <typename K>
inline void fill(threadgroup float* tile, Rows<K> rows, uint from, uint n, uint width, Lane at) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint j = at.group; j < n; j += at.groups) {
    device const K* row = rows.base + rows.offset(from + j);
    for (uint d = at.lane; d < width; d += 32) {
      tile[j * width + d] = widened(row[rows.element(d)], rows.scale);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

// A part of the key range, uniform over a threadgroup whose rows are lowest to highest.
struct Span {
  uint begin;
  uint end;
  int covered_from;  // blocks inside of these two need no test of single rows
  int covered_to;

  bool is_edge(uint from, uint n) const {
    return n < BLOCK || int(from) < covered_from || int(from + n) - 1 > covered_to;
  }
};

// Rows of the other side that rows lowest to highest see: from row + low to row + high, of `count`.
inline Span span_of(int lowest, int highest, int low, int high, int count) {
  const int begin = max(0, lowest + low);
  const int end = min(count, highest + high + 1);
  return {uint(begin) / BLOCK * BLOCK, uint(max(begin / int(BLOCK) * int(BLOCK), end)), highest + low, lowest + high};
}

template <typename T>
inline void read_row(thread float* to, device const T* from, uint n) {
  for (uint d = 0; d < n; ++d) {
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

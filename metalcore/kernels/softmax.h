// What softmax, log_softmax and logsumexp share: the largest value of a row or column and the sum of exp(x - largest),
// read once, in blocks that stay in the cache: a block's largest value first, then its exponentials.
// Source of the running rescale: arXiv:1805.02867.
#pragma once
#include "exponential.h"
#include "group.h"
#include "wide.h"

constant constexpr uint ROW_BLOCK = 64;     // steps of a threadgroup between two rescales
constant constexpr uint KEPT = 4096;        // elements of a row whose exponentials threadgroup memory may hold
constant constexpr uint COLUMN_BLOCK = 16;  // steps of a thread down its column

// a where it is larger, else b, also where one is NaN: a NaN is found again in the sum.
inline float higher(float a, float b) { return a > b ? a : b; }
inline float4 higher(float4 a, float4 b) { return select(b, a, a > b); }

// What is taken from x in front of exp: the largest value, or 0 where all is -inf, so that exp gives 0 and not NaN.
// is_open: 0 where it is +inf too; else the difference of two infinities makes the whole result NaN, as in torch.
template <bool is_open>
inline float base(float high) {
  return high == -INFINITY || (is_open && high == INFINITY) ? 0.0f : high;
}
template <bool is_open>
inline float4 base(float4 high) {
  return float4(base<is_open>(high.x), base<is_open>(high.y), base<is_open>(high.z), base<is_open>(high.w));
}

// e^(x - from) for a result of type T; x is not above `from`, but is_open: it may be +inf.
template <typename T, bool is_open = false, typename F>
inline F exp_from(F x, F from) {
  return is_open ? (sizeof(T) > 2 ? exp(x - from) : fast::exp(x - from)) : exp_minus<T>(from - x);
}

struct Peak {
  float base;
  float sum;
};

// Where a thread stands in its row, and how many steps are looked at.
struct Reach {
  uint lid;
  uint group_size;
  uint steps;
};

// An additive mask: as long as the row, one number for all of it, or none.
template <typename M>
struct Mask {
  device const M* at;
  bool is_there;
  bool walks;
};

template <uint V, typename T, typename M>
inline wide<float, V> score(device const T* x, Mask<M> mask, uint i) {
  const wide<float, V> v = load<V>(x, i);
  if (mask.is_there) {
    return mask.walks ? v + load<V>(mask.at, i) : v + float(mask.at[0]);
  }
  return v;
}

// kept: where the exponentials are kept in threadgroup memory, for a row of at most KEPT elements; else null.
template <typename O, bool is_open, uint V, typename T, typename M>
inline Peak row_peak(
    device const T* x, Mask<M> mask, threadgroup float4* kept, threadgroup float* partial, Lane at, Reach reach) {
  using F = wide<float, V>;
  const uint block = ROW_BLOCK * reach.group_size;
  F high = F(-INFINITY);
  F sum = F(0.0f);
  if (kept || reach.steps <= block) {
    for (uint i = reach.lid; i < reach.steps; i += reach.group_size) {
      high = higher(score<V>(x, mask, i), high);
    }
    const float from = base<is_open>(group_max(largest(high), partial, at));
    for (uint i = reach.lid; i < reach.steps; i += reach.group_size) {
      const F e = exp_from<O, is_open>(score<V>(x, mask, i), F(from));
      if (kept) {
        ((threadgroup F*)kept)[i] = e;
      }
      sum += e;
    }
    return {from, group_sum(total(sum), partial, at)};
  }
  for (uint first = 0; first < reach.steps; first += block) {
    const uint last = min(first + block, reach.steps);
    F next = high;
    for (uint i = first + reach.lid; i < last; i += reach.group_size) {
      next = higher(score<V>(x, mask, i), next);
    }
    const F from = base<is_open>(next);
    sum *= exp_from<O, is_open>(high, from);
    high = next;
    F part = F(0.0f);  // a sum of its own has fewer roundings
    for (uint i = first + reach.lid; i < last; i += reach.group_size) {
      part += exp_from<O, is_open>(score<V>(x, mask, i), from);
    }
    sum += part;
  }
  const float top = base<is_open>(group_max(largest(high), partial, at));
  return {top, group_sum(total(sum * exp_from<O, is_open>(high, F(top))), partial, at)};
}

// e / sum: one division for a row, with what it rounds off.
struct Quotient {
  float factor;
  float rest;

  template <typename O, typename F>
  F of(F e) const {
    return sizeof(O) > 2 ? fma(e, F(factor), e * rest) : e * factor;
  }
};

inline Quotient over(float sum, bool is_hidden) {
  const float factor = is_hidden ? 0.0f : 1.0f / sum;
  const float rest = fma(-sum, factor, 1.0f) * factor;
  return {factor, isfinite(rest) ? rest : 0.0f};
}

// Where a mask that is broadcast has its element for position p of the input, counted without the reduced dimension:
// up to four groups of dimensions, each with its size (but the first) and its step in the mask.
struct Spread {
  ulong size[3];
  ulong step[4];
};

inline Spread spread(long size1, long size2, long size3, long step0, long step1, long step2, long step3) {
  return {{ulong(size1), ulong(size2), ulong(size3)}, {ulong(step0), ulong(step1), ulong(step2), ulong(step3)}};
}

inline ulong place(ulong p, Spread spread) {
  ulong at = 0;
  _Pragma("clang loop unroll(full)")
  for (int group = 2; group >= 0; group--) {
    at += (p % spread.size[group]) * spread.step[group + 1];
    p /= spread.size[group];
  }
  return at + p * spread.step[0];
}

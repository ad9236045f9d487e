// Scores of attention: what is added to them or takes them away, their softcap and their weights.
#pragma once
#include "attention_sums.h"
#include "exponential.h"

constant bool has_extras [[function_constant(0)]];  // masks, softcap, ALiBi or dropout; `flags` says which

// Bits of `flags`, as in ops/base/attention.py; attention.h has those of layouts.
constant uint HAS_BIAS = 1;
constant uint HAS_MASK = 2;
constant uint HAS_SLOPES = 4;
constant uint SLOPES_BY_BATCH = 8;
constant uint HAS_SINKS = 16;

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

// The numbers of a lane's own row lie far from those of the next lane: an access has as many of them as fit into a word.
inline void hide_masked(thread float* s, thread float* low, device const bool* mask, long step, uint n) {
  uint j = 0;
  if (step == 1 && is_aligned(mask)) {
    for (; j + 4 <= n; j += 4) {
      const uchar4 seen = as_type<uchar4>(*(device const uint*)(mask + j));
#pragma unroll
      for (uint e = 0; e < 4; ++e) {
        hide(s[j + e], low[j + e], seen[e] != 0);
      }
    }
  }
  for (; j < n; ++j) {
    hide(s[j], low[j], mask[long(j) * step]);
  }
}

template <typename T>
inline void read_bias(thread float* to, device const T* bias, long step, uint n) {
  if (step == 1) {
    read_row(to, bias, n);
    return;
  }
  for (uint j = 0; j < n; ++j) {
    to[j] = float(bias[long(j) * step]);
  }
}

// scale * (product + low) + more, rounded once; what that loses stays in `low`.
inline float scaled(float product, thread float& low, float scale, float more) {
  if (!is_exact) {
    return fma(product, scale, more);
  }
  const float first = product * scale;
  ExactSum sum = {first, fma(product, scale, -first) + low * scale};
  sum = added(sum, more);
  low = abs(sum.value) < 1e30f ? sum.error : 0.0f;  // a mask of -3e38 hides what was there, as where sums are plain
  return sum.value;
}

// cap tanh((x + low) / cap) with what its rounding lost, by (1 - e) / (1 + e) with e = exp(-2 |x| / cap) as a sum of
// three: 1 + r + c, times 2^-k.
inline ExactSum exact_cap(float x, float low, float cap) {
  const float y = min(abs(x / cap), 15.0f);
  const float y_low = y < 15.0f ? (fma(-y, cap, abs(x)) + (x < 0.0f ? -low : low)) / cap : 0.0f;
  const float k = rint(y * 2.885390f);  // 2 / log(2)
  ExactSum r = {fma(k, 0.693359375f, -2.0f * y), fma(-2.0f, y_low, 0.0f)};
  r = added(r, k * -2.12194440e-4f);
  float c = fma(fma(r.value, 1.9841270e-4f, 1.3888889e-3f), r.value, 8.3333333e-3f);
  c = fma(fma(fma(c, r.value, 4.1666667e-2f), r.value, 0.16666667f), r.value, 0.5f) * r.value * r.value;
  const float power = ldexp(1.0f, -int(k));
  ExactSum e = {1.0f, 0.0f};
  e = added(e, r.value);
  e = {e.value * power, (e.error + fma(r.error, 1.0f + r.value, c)) * power};
  ExactSum above = {1.0f, 0.0f};
  above = added(above, -e.value);
  above = added(above, -e.error);
  ExactSum below = {1.0f, 0.0f};
  below = added(below, e.value);
  below = added(below, e.error);
  const float t = above.value / below.value;
  const float t_low = (fma(-t, below.value, above.value) + (above.error - t * below.error)) / below.value;
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
    float extra[BLOCK];
    for (uint j = 0; j < BLOCK; ++j) {
      extra[j] = 0.0f;
    }
    if (how.flags & HAS_BIAS) {
      read_bias(extra, how.bias + long(from) * how.step, how.step, n);
    }
    if (how.flags & HAS_SLOPES) {
      for (uint j = 0; j < BLOCK; ++j) {
        extra[j] -= how.slope * abs(float(how.place - int(from + j)));
      }
    }
    if (how.softcap > 0.0f) {
      for (uint j = 0; j < BLOCK; ++j) {
        const float x = scaled(s[j], low[j], scale, 0.0f);
        const float t = capped_part<T>(x, how.softcap);
        const float bend = is_exact ? exact_bend(x, low[j], how.softcap, t) : fma(-t, t, 1.0f);
        if (is_exact && isfinite(x)) {
          const ExactSum sum = added(exact_cap(x, low[j], how.softcap), extra[j]);
          s[j] = sum.value;
          low[j] = abs(sum.value) < 1e30f ? sum.error : 0.0f;
        } else {
          s[j] = fma(how.softcap, t, extra[j]);
          low[j] *= bend;
        }
        if (bends != nullptr) {
          bends[j] = bend;
        }
      }
    } else {
      for (uint j = 0; j < BLOCK; ++j) {
        s[j] = scaled(s[j], low[j], scale, extra[j]);
      }
    }
    if (how.flags & HAS_MASK) {
      hide_masked(s, low, how.mask + long(from) * how.step, how.step, n);
    }
    if (how.flags & HAS_BIAS) {  // -infinity masks, whatever the score is: NaN and infinity would stay NaN
      for (uint j = 0; j < n; ++j) {
        hide(s[j], low[j], extra[j] != -INFINITY);
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

// exp(score - top); of a difference of 16 the rounding alone would be 1e-6 of the weight.
template <typename T>
inline float weight_of(float s, float low, float top) {
  if (!is_exact) {
    return exp_minus<T>(top - s);
  }
  ExactSum away = {top, 0.0f};
  away = added(away, -s);
  const float weight = exp_minus<T>(away.value);
  return isfinite(away.value) ? fma(-weight, away.error - low, weight) : weight;
}

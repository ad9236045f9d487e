// softmax and log_softmax over the last dimension: one threadgroup a row. O: type of the result, M: of the mask.
//   y = exp(x - m) / s            or  y = x - m - log(s),       m = max(x),  s = sum(exp(x - m))
//   dx = y (g - sum(g y))         or  dx = g - exp(y) sum(g)
// Where a mask or `causal` hides the whole row, y is 0 (softmax) or -inf (log_softmax); else NaN comes as it does.
#pragma once
#include "softmax.h"

template <bool is_log, uint V, typename T, typename O, typename M>
inline void softmax_row(
    device const T* x,
    Mask<M> mask,
    device O* y,
    uint steps,
    bool is_causal,
    threadgroup float4* kept,
    threadgroup float* partial,
    Lane at,
    Reach reach) {
  using F = wide<float, V>;
  const Peak peak = row_peak<O, false, V>(x, mask, kept, partial, at, reach);
  const bool is_hidden = (mask.is_there || is_causal) && peak.sum == 0.0f;
  if (is_log) {
    const float offset = is_hidden ? 0.0f : log(peak.sum);
    for (uint i = reach.lid; i < reach.steps; i += reach.group_size) {
      store<V>(y, i, score<V>(x, mask, i) - peak.base - offset);
    }
  } else {
    const Quotient share = over(peak.sum, is_hidden);
    for (uint i = reach.lid; i < reach.steps; i += reach.group_size) {
      const F e = kept ? ((threadgroup F*)kept)[i] : exp_from<O>(score<V>(x, mask, i), F(peak.base));
      store<V>(y, i, share.of<O>(e));
    }
  }
  if (is_causal) {
    for (uint i = reach.steps + reach.lid; i < steps; i += reach.group_size) {
      store<V>(y, i, F(is_log ? -INFINITY : 0.0f));
    }
  }
}

template <bool is_log, uint V, typename T, typename O>
inline void softmax_row_gradient(
    device const O* g,
    device const O* y,
    device T* dx,
    uint steps,
    bool is_causal,
    threadgroup float* partial,
    Lane at,
    Reach reach) {
  using F = wide<float, V>;
  F sums = F(0.0f);
  for (uint i = reach.lid; i < (is_log ? steps : reach.steps); i += reach.group_size) {
    const F gi = load<V>(g, i);
    sums = is_log ? sums + gi : fma(gi, load<V>(y, i), sums);
  }
  float sum = group_sum(total(sums), partial, at);
  if (!is_log && sizeof(O) > 2 && reach.steps <= reach.group_size) {
    // In a short row one y is often nearly 1 and g - sum nearly 0: as y adds up to 1, what is missing can be found.
    F rests = F(0.0f);
    for (uint i = reach.lid; i < reach.steps; i += reach.group_size) {
      rests = fma(load<V>(g, i) - sum, load<V>(y, i), rests);
    }
    sum += group_sum(total(rests), partial, at);
  }
  for (uint i = reach.lid; i < reach.steps; i += reach.group_size) {
    const F gi = load<V>(g, i);
    const F yi = load<V>(y, i);
    store<V>(dx, i, is_log ? fma(-exp_minus<O>(-yi), F(sum), gi) : yi * (gi - sum));
  }
  if (is_causal) {
    for (uint i = reach.steps + reach.lid; i < steps; i += reach.group_size) {
      store<V>(dx, i, F(0.0f));
    }
  }
}

// How many keys a row's query sees.
inline uint seen(uint row, long queries, long keys, bool is_causal) {
  return is_causal ? uint(clamp(long(row) % queries + keys - queries + 1, 0l, keys)) : uint(keys);
}

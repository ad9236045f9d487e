// softmax and log_softmax over another dimension than the last: one thread walks down a column of n elements that lie
// `stride` apart, neighbouring threads have neighbouring columns. Formulas in softmax_rows.h.
#pragma once
#include "softmax.h"

// One column: x, y and the mask point to its first element.
template <typename T, typename M>
struct Column {
  device const T* x;
  device const M* mask;
  ulong n;
  ulong stride;
  ulong mask_stride;
  ulong first;  // steps in front of it are hidden, because their query does not see this key
  bool has_mask;
  bool is_causal;

  float score(ulong k) const {
    float v = float(x[k * stride]);
    if (has_mask) {
      v += float(mask[k * mask_stride]);
    }
    return is_causal && k < first ? -INFINITY : v;
  }
};

// Query i sees key j up to i + keys - queries. Down a column the query changes (`walks`), or neither does.
inline ulong first_seen(ulong column, ulong n, long queries, long keys, bool walks) {
  const long key = long(column % ulong(keys));
  const long query = walks ? 0 : long(column / ulong(keys) % ulong(queries));
  const long missing = max(key - query - (keys - queries), 0l);
  return walks ? ulong(missing) : (missing > 0 ? n : 0);
}

template <typename O, bool is_open, typename T, typename M>
inline Peak column_peak(Column<T, M> column) {
  float high = -INFINITY;
  float sum = 0.0f;
  for (ulong begin = 0; begin < column.n; begin += COLUMN_BLOCK) {
    const ulong end = min(begin + COLUMN_BLOCK, column.n);
    float next = high;
    for (ulong k = begin; k < end; k++) {
      next = higher(column.score(k), next);
    }
    const float from = base<is_open>(next);
    sum *= exp_from<O, is_open>(high, from);
    high = next;
    float part = 0.0f;  // a sum of its own has fewer roundings
    for (ulong k = begin; k < end; k++) {
      part += exp_from<O, is_open>(column.score(k), from);
    }
    sum += part;
  }
  return {base<is_open>(high), sum};
}

template <bool is_log, typename T, typename O, typename M>
inline void softmax_column(Column<T, M> column, device O* y) {
  const Peak peak = column_peak<O, false>(column);
  const bool is_hidden = (column.has_mask || column.is_causal) && peak.sum == 0.0f;
  const float offset = is_hidden ? 0.0f : log(peak.sum);
  const Quotient share = over(peak.sum, is_hidden);
  for (ulong k = 0; k < column.n; k++) {
    const float v = column.score(k) - peak.base;
    y[k * column.stride] = O(is_log ? v - offset : share.of<O>(exp_minus<O>(-v)));
  }
}

// hidden: steps in front of `first` get no gradient.
template <bool is_log, typename T, typename O>
inline void softmax_column_gradient(
    device const O* g, device const O* y, device T* dx, ulong n, ulong stride, ulong first, bool is_causal) {
  float sum = 0.0f;
  for (ulong k = 0; k < n; k++) {
    const float gi = float(g[k * stride]);
    sum = is_log ? sum + gi : fma(gi, float(y[k * stride]), sum);
  }
  for (ulong k = 0; k < n; k++) {
    const float gi = float(g[k * stride]);
    const float yi = float(y[k * stride]);
    const float v = is_log ? fma(-exp_minus<O>(-yi), sum, gi) : yi * (gi - sum);
    dx[k * stride] = T(is_causal && k < first ? 0.0f : v);
  }
}

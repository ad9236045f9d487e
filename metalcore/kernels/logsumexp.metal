// y = m + log(sum(exp(x - m))),  m = max(x), or 0 where that is infinite
// dx = g exp(x - y), and 0 where y is -inf: then all of x is -inf, and none of it counts
// `exact` is y in float, kept for the gradient.
#include "softmax_columns.h"
#include "softmax_rows.h"

// One threadgroup a row. V: elements a thread takes at once.
template <typename T, uint V>
[[kernel]] void logsumexp_rows(
    device const T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    device float* exact [[buffer(2)]],
    constant long& width [[buffer(3)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const Reach reach = {lid, group_size, uint(width) / V};
  const Mask<T> none = {x, false, false};
  const Peak peak = row_peak<T, true, V>(x + row * width, none, nullptr, partial, at, reach);
  if (lid == 0) {
    const float found = peak.base + log(peak.sum);
    exact[row] = found;
    y[row] = T(found);
  }
}

template <typename T, uint V>
[[kernel]] void logsumexp_rows_backward(
    device const T* g [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device const float* exact [[buffer(2)]],
    device T* dx [[buffer(3)]],
    constant long& width [[buffer(4)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  x += row * width;
  dx += row * width;
  const float from = base<false>(exact[row]);
  const float factor = float(g[row]);
  for (uint i = lid; i < uint(width) / V; i += group_size) {
    store<V>(dx, i, exp_from<T>(load<V>(x, i), wide<float, V>(from)) * factor);
  }
}

// One thread a column of n elements that lie `inner` apart; grid: columns, then what is in front of them.
template <typename T>
[[kernel]] void logsumexp_columns(
    device const T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    device float* exact [[buffer(2)]],
    constant long& n [[buffer(3)]],
    constant long& inner [[buffer(4)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group_size [[threads_per_threadgroup]]) {
  const uint c = group.x * group_size.x + lid.x;
  if (c >= uint(inner)) {
    return;
  }
  const ulong from = group.y * ulong(n) * ulong(inner);
  const Column<T, T> column = {x + from + c, x, ulong(n), ulong(inner), 0, 0, false, false};
  const Peak peak = column_peak<T, true>(column);
  const float found = peak.base + log(peak.sum);
  exact[group.y * ulong(inner) + c] = found;
  y[group.y * ulong(inner) + c] = T(found);
}

template <typename T>
[[kernel]] void logsumexp_columns_backward(
    device const T* g [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device const float* exact [[buffer(2)]],
    device T* dx [[buffer(3)]],
    constant long& n [[buffer(4)]],
    constant long& inner [[buffer(5)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group_size [[threads_per_threadgroup]]) {
  const uint c = group.x * group_size.x + lid.x;
  if (c >= uint(inner)) {
    return;
  }
  const ulong first = group.y * ulong(n) * ulong(inner) + c;
  const float from = base<false>(exact[group.y * ulong(inner) + c]);
  const float factor = float(g[group.y * ulong(inner) + c]);
  for (ulong k = 0; k < ulong(n); k++) {
    const ulong i = first + k * ulong(inner);
    dx[i] = T(exp_from<T>(float(x[i]), from) * factor);
  }
}

// mLSTM as attention: h_t = sum over s <= t of A_ts v_s / (max(|sum over s of A_ts|, exp(-m_t)) + eps), with b the sum of
// log f from the first row on. mlstm.h has the rest. No matrix of rows x rows is kept.
#include "mlstm.h"

// A lane has a row, simdgroups share its elements. grid: blocks of 32 rows, heads.
template <typename T, uint ROOM, uint SLICE>
[[kernel]] void mlstm_parallel(
    device const T* q [[buffer(0)]],
    device const T* k [[buffer(1)]],
    device const T* v [[buffer(2)]],
    device const float* gates [[buffer(3)]],
    device const float* norms [[buffer(4)]],
    device T* h [[buffer(5)]],
    constant long& heads [[buffer(6)]],
    constant long& length [[buffer(7)]],
    constant long& depth [[buffer(8)]],
    constant long& width [[buffer(9)]],
    constant float& scale [[buffer(10)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float tile[ROWS * ROOM];
  threadgroup float partial[partial_size<ROOM, SLICE>() + ROWS * 32];
  threadgroup float* weights = partial + partial_size<ROOM, SLICE>();
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint head = gid.y;
  const uint rows = uint(length);
  const uint t = gid.x * 32 + at.lane;
  const ulong plane = heads * length;
  const ulong start = head * ulong(length);
  const ulong place = start + min(t, rows - 1);
  const uint begin = min(at.group * SLICE, uint(depth));
  const uint count = min(SLICE, uint(depth) - begin);
  const uint first = min(at.group * SLICE, uint(width));
  const uint columns = min(SLICE, uint(width) - first);

  float mine[SLICE];
  float out[SLICE];
  for (uint d = 0; d < count; ++d) {
    mine[d] = float(q[place * depth + begin + d]);
  }
  for (uint d = 0; d < columns; ++d) {
    out[d] = 0.0f;
  }
  const float row = gates[ROW * plane + place];
  const float row_low = gates[ROW_LOW * plane + place];
  const uint last = min(rows, gid.x * 32 + 32);
  for (uint from = 0; from < last; from += ROWS) {
    fill_rows(tile, k + start * depth, uint(depth), from, rows, One{}, at);
    float sums[ROWS];
    clear(sums);
    add_products(sums, mine, tile, uint(depth), begin, count);
    join_slices(sums, partial, at);
#pragma unroll
    for (uint e = 0; e < ROWS; ++e) {
      if (e % at.groups == at.group) {
        const uint s = from + e;
        const ulong key = start + min(s, rows - 1);
        const float weight = decay_of(row, row_low, gates[KEY * plane + key], gates[KEY_LOW * plane + key]);
        sums[e] = s <= t && s < rows ? sums[e] * scale * weight : 0.0f;
        weights[e * 32 + at.lane] = sums[e];
      }
    }
    fill_rows(tile, v + start * width, uint(width), from, rows, One{}, at);
    if (at.groups > 1) {
#pragma unroll
      for (uint e = 0; e < ROWS; ++e) {
        sums[e] = weights[e * 32 + at.lane];
      }
    }
    threadgroup const float* own = tile + first;
    for (uint d = 0; d < columns; ++d) {
      float sum = sums[0] * own[d];
#pragma unroll
      for (uint e = 1; e < ROWS; ++e) {
        sum = fma(sums[e], own[e * uint(width) + d], sum);
      }
      out[d] += sum;
    }
  }
  if (t < rows) {
    const float below = norms[DENOMINATOR * plane + place];
    for (uint d = 0; d < columns; ++d) {
      h[place * width + first + d] = T(out[d] / below);
    }
  }
}

// mLSTM by chunks, forward: gates of all rows, and scores inside of each chunk. mlstm.h has the formulas, mlstm_steps.metal
// the normaliser; mlstm_scan.metal goes over the chunks.
#include "mlstm.h"

constant bool has_states [[function_constant(1)]];  // there are states before the first row

// A thread a head. `keep`: how much of the state a chunk leaves. grid: heads.
template <typename T, typename S>
[[kernel]] void mlstm_gates(
    device const T* i [[buffer(0)]],
    device const T* f [[buffer(1)]],
    device const S* m_initial [[buffer(2)]],
    device float* gates [[buffer(3)]],
    device float* keep [[buffer(4)]],
    device float* m_last [[buffer(5)]],
    constant long& heads [[buffer(6)]],
    constant long& length [[buffer(7)]],
    constant long& chunk [[buffer(8)]],
    uint head [[thread_position_in_grid]]) {
  if (head >= uint(heads)) {
    return;
  }
  const ulong plane = heads * length;
  const ulong first = head * ulong(length);
  const uint chunks = uint((length + chunk - 1) / chunk);
  FloatFloat m = {has_states && !is_sigmoid ? float(m_initial[head]) : 0.0f, 0.0f};
  for (uint c = 0; c < chunks; ++c) {
    const ulong from = first + c * ulong(chunk);
    const ulong to = min(from + ulong(chunk), first + ulong(length));
    const FloatFloat before = m;
    FloatFloat b = {0.0f, 0.0f};
    for (ulong t = from; t < to; ++t) {
      const FloatFloat log_f = log_sigmoid(float(f[t]));
      FloatFloat in = {max(float(i[t]), -1e30f), 0.0f};
      const FloatFloat last = m;
      if (is_sigmoid) {
        in = log_sigmoid(float(i[t]));
      } else {
        const FloatFloat kept = m + log_f;
        m = in > kept ? in : kept;
      }
      b = b + log_f;
      const FloatFloat row = b - m;
      const FloatFloat key = in - b;
      const FloatFloat forget = exp_of((log_f + last) - m);
      const FloatFloat input = exp_of(in - m);
      gates[STABILISER * plane + t] = m.high;
      gates[STABILISER_LOW * plane + t] = m.low;
      gates[ROW * plane + t] = row.high;
      gates[ROW_LOW * plane + t] = row.low;
      gates[KEY * plane + t] = key.high;
      gates[KEY_LOW * plane + t] = key.low;
      gates[READ * plane + t] = to_float(exp_of(row + before));
      gates[FORGET * plane + t] = forget.high;
      gates[FORGET_LOW * plane + t] = forget.low;
      gates[INPUT * plane + t] = input.high;
      gates[INPUT_LOW * plane + t] = input.low;
    }
    const FloatFloat end = b - m;
    keep[head * ulong(chunks) + c] = to_float(exp_of(end + before));
    for (ulong t = from; t < to; ++t) {
      const FloatFloat key = {gates[KEY * plane + t], gates[KEY_LOW * plane + t]};
      gates[WRITE * plane + t] = to_float(exp_of(end + key));
    }
  }
  m_last[head] = m.high;
}

// A of each chunk, key by key: scores[s][t]. A lane has a row t, simdgroups share its elements. grid: blocks of 32 rows
// of all chunks, heads.
template <typename T, uint ROOM, uint SLICE>
[[kernel]] void mlstm_scores(
    device const T* q [[buffer(0)]],
    device const T* k [[buffer(1)]],
    device const float* gates [[buffer(2)]],
    device float* scores [[buffer(3)]],
    constant long& heads [[buffer(4)]],
    constant long& length [[buffer(5)]],
    constant long& depth [[buffer(6)]],
    constant long& chunk [[buffer(7)]],
    constant float& scale [[buffer(8)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float tile[ROWS * ROOM];
  threadgroup float partial[partial_size<ROOM, SLICE>()];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint head = gid.y;
  const Block block = block_of(gid.x, uint(chunk), uint(length), at.lane);
  const ulong plane = heads * length;
  const ulong start = head * ulong(length) + block.first;
  const ulong place = start + min(block.row, block.rows - 1);
  const uint begin = min(at.group * SLICE, uint(depth));
  const uint count = min(SLICE, uint(depth) - begin);

  float mine[SLICE];
  for (uint d = 0; d < count; ++d) {
    mine[d] = float(q[place * depth + begin + d]);
  }
  const float row = gates[ROW * plane + place];
  const float row_low = gates[ROW_LOW * plane + place];
  for (uint from = 0; from < block.last; from += ROWS) {
    fill_rows(tile, k + start * depth, uint(depth), from, block.rows, One{}, at);
    float sums[ROWS];
    clear(sums);
    add_products(sums, mine, tile, uint(depth), begin, count);
    join_slices(sums, partial, at);
#pragma unroll
    for (uint e = 0; e < ROWS; ++e) {
      const uint s = from + e;
      if (e % at.groups == at.group && s < uint(chunk) && block.row < uint(chunk)) {
        const ulong key = start + min(s, block.rows - 1);
        const float weight = decay_of(row, row_low, gates[KEY * plane + key], gates[KEY_LOW * plane + key]);
        const float score = block.row < block.rows && s <= block.row ? sums[e] * scale * weight : 0.0f;
        scores[block.matrix(head, uint(length), uint(chunk)) + s * ulong(chunk) + block.row] = score;
      }
    }
  }
}

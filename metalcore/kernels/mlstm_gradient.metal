// mLSTM by chunks, backward; mlstm_scan.metal has dq, dk and dv. With d the denominator of a row:
//   dA_ts = dh_t v_s / d_t + dr_t,  dr_t = -(h_t dh_t) / d_t sign(r_t) where |r_t| > exp(-m_t), else 0
//   dS_ts = dA_ts exp(b_t - b_s + i_s - m_t) / sqrt(depth)
// A key's weight is exp(i_s) times what does not depend on i_s, so di = k dk; b_t stands in all scores of row t with +, of
// key t with -, so the gradient of log f_t is the sum over rows from t on of q dq - k dk, up to the end of the chunk, and
// there the product of the state and its gradient. r and the numerator are exp(-m) times what does not depend on m: m has
// a gradient where eps makes a difference, and as a result.
#include "mlstm.h"

constant bool has_states [[function_constant(1)]];

// dr and dm of each row: a simdgroup a row. grid: rows of all heads.
template <typename T, typename O>
[[kernel]] void mlstm_delta(
    device const O* h [[buffer(0)]],
    device const T* dh [[buffer(1)]],
    device const float* gates [[buffer(2)]],
    device const float* norms [[buffer(3)]],
    device float* deltas [[buffer(4)]],
    constant long& rows [[buffer(5)]],
    constant long& width [[buffer(6)]],
    constant float& eps [[buffer(7)]],
    uint gid [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  ExactSum sum = {0.0f, 0.0f};
  for (uint d = lane; d < uint(width); d += 32) {
    sum = added_product(sum, float(h[gid * ulong(width) + d]), float(dh[gid * ulong(width) + d]));
  }
  const float product = rounded(simd_added(sum));
  if (lane == 0) {
    const float r = norms[NORMALISER * rows + gid];
    const float share = product / norms[DENOMINATOR * rows + gid];
    const bool is_used = abs(r) > to_float(least_below(gates, rows, gid));
    deltas[NORMALISER_GRADIENT * rows + gid] = is_used ? (r > 0.0f ? -share : share) : 0.0f;
    deltas[STABILISER_GRADIENT * rows + gid] = -share * eps;
  }
}

// dS of each chunk, key by key as the scores are. A lane has a row. grid: blocks of 32 rows of all chunks, heads.
template <typename T, uint ROOM, uint SLICE>
[[kernel]] void mlstm_score_gradient(
    device const T* dh [[buffer(0)]],
    device const T* v [[buffer(1)]],
    device const float* gates [[buffer(2)]],
    device const float* norms [[buffer(3)]],
    device const float* deltas [[buffer(4)]],
    device float* gradients [[buffer(5)]],
    constant long& heads [[buffer(6)]],
    constant long& length [[buffer(7)]],
    constant long& width [[buffer(8)]],
    constant long& chunk [[buffer(9)]],
    constant float& scale [[buffer(10)]],
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
  const uint begin = min(at.group * SLICE, uint(width));
  const uint count = min(SLICE, uint(width) - begin);

  float mine[SLICE];
  for (uint d = 0; d < count; ++d) {
    mine[d] = float(dh[place * width + begin + d]);
  }
  const float row = gates[ROW * plane + place];
  const float row_low = gates[ROW_LOW * plane + place];
  const float below = norms[DENOMINATOR * plane + place];
  const float dr = deltas[NORMALISER_GRADIENT * plane + place];
  for (uint from = 0; from < block.last; from += ROWS) {
    fill_rows(tile, v + start * width, uint(width), from, block.rows, One{}, at);
    float sums[ROWS];
    clear(sums);
    add_products(sums, mine, tile, uint(width), begin, count);
    join_slices(sums, partial, at);
#pragma unroll
    for (uint e = 0; e < ROWS; ++e) {
      const uint s = from + e;
      if (e % at.groups == at.group && s < uint(chunk) && block.row < uint(chunk)) {
        const ulong key = start + min(s, block.rows - 1);
        const float weight = decay_of(row, row_low, gates[KEY * plane + key], gates[KEY_LOW * plane + key]);
        const float gradient = (sums[e] / below + dr) * weight * scale;
        const bool is_seen = block.row < block.rows && s <= block.row;
        gradients[block.matrix(head, uint(length), uint(chunk)) + s * ulong(chunk) + block.row] = is_seen ? gradient : 0.0f;
      }
    }
  }
}

inline ExactSum total_of(device const float* shares, uint n) {
  ExactSum sum = {0.0f, 0.0f};
  for (uint j = 0; j < n; ++j) {
    sum = added(sum, shares[j]);
  }
  return sum;
}

// di, df and dm of the first state: a thread a head, backwards. grid: heads.
template <typename T, typename S>
[[kernel]] void mlstm_gate_gradient(
    device const T* i [[buffer(0)]],
    device const T* f [[buffer(1)]],
    device const float* gates [[buffer(2)]],
    device const float* deltas [[buffer(3)]],
    device const float* of_q [[buffer(4)]],
    device const float* of_k [[buffer(5)]],
    device const float* shares [[buffer(6)]],
    device const float* dm_last [[buffer(7)]],
    device T* di [[buffer(8)]],
    device T* df [[buffer(9)]],
    device S* dm_initial [[buffer(10)]],
    constant long& heads [[buffer(11)]],
    constant long& length [[buffer(12)]],
    constant long& chunk [[buffer(13)]],
    constant long& blocks [[buffer(14)]],
    uint head [[thread_position_in_grid]]) {
  if (head >= uint(heads)) {
    return;
  }
  const ulong plane = heads * length;
  const ulong start = head * ulong(length);
  const uint chunks = uint((length + chunk - 1) / chunk);
  device const float* of_head = shares + head * ulong(chunks + 1) * blocks;
  // The last states are times exp(-m).
  float dm = is_sigmoid ? 0.0f : dm_last[head] - rounded(total_of(of_head + chunks * ulong(blocks), uint(blocks)));
  const bool is_alone = !has_states && length == 1;  // then I is 1 where m is i: what is left of a cancellation is noise
  for (uint i_chunk = 0; i_chunk < chunks; ++i_chunk) {
    const uint c = chunks - 1 - i_chunk;
    ExactSum sum = total_of(of_head + (c + 1) * ulong(blocks), uint(blocks));
    const uint from = c * uint(chunk);
    for (uint t = min(from + uint(chunk), uint(length)); t-- > from;) {
      const ulong place = start + t;
      const ExactSum key = total_of(of_k + place * blocks, uint(blocks));
      const ExactSum query = total_of(of_q + place * blocks, uint(blocks));
      sum = added(added(sum, rounded(query)), -rounded(key));
      const float in = float(i[place]);
      float d_in = rounded(key);
      float d_log = rounded(sum);
      if (is_sigmoid) {
        d_in *= sigmoid_of(-in);
      } else {
        dm += deltas[STABILISER_GRADIENT * plane + place];
        const bool is_input = in == gates[STABILISER * plane + place];  // the larger of the two
        d_in += is_input ? dm : 0.0f;
        if (is_input && is_alone) {
          d_in = dm_last[head];
        }
        d_log += is_input ? 0.0f : dm;
        dm = is_input ? 0.0f : dm;
      }
      di[place] = T(d_in);
      df[place] = T(d_log * sigmoid_of(-float(f[place])));
    }
  }
  if (has_states) {
    dm_initial[head] = S(is_sigmoid ? 0.0f : dm + rounded(total_of(of_head, uint(blocks))));
  }
}

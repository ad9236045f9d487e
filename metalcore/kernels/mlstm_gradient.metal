// mLSTM by chunks, backward; mlstm_scan.metal has dq, dk and dv. With d the denominator of a row:
//   dA_ts = dh_t v_s / d_t + dr_t,  dr_t = -(h_t dh_t) / d_t sign(r_t) where |r_t| > exp(-m_t), else 0
//   dS_ts = dA_ts exp(b_t - b_s + i_s - m_t) / sqrt(depth)
// P_ts = dA_ts A_ts is the gradient of the exponent b_t - b_s + i_s - m_t, so di_s is the sum over t of P_ts and of what
// the state after the chunk takes from row s; log f_t has the sum of all that goes past row t: P_us with s < t <= u, rows
// from t on that read the state before the chunk, rows before t that the state after it takes, and what the state before
// leaves to the state after. r and the numerator are exp(-m) times what does not depend on m: m has a gradient where eps
// makes a difference, and as a result.
#include "mlstm.h"

constant bool has_states [[function_constant(1)]];
constant bool has_last [[function_constant(6)]];  // the last states have a gradient

// dr and dm of each row: a simdgroup a row. grid: rows of all heads.
template <typename T, typename O>
[[kernel]] void mlstm_delta(
    device const O* h [[buffer(0)]],
    device const T* dh [[buffer(1)]],
    device const float* norms [[buffer(2)]],
    device float* deltas [[buffer(3)]],
    constant long& rows [[buffer(4)]],
    constant long& width [[buffer(5)]],
    constant float& eps [[buffer(6)]],
    uint gid [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  ExactSum sum = {0.0f, 0.0f};
  for (uint d = lane; d < uint(width); d += 32) {
    sum = added_product(sum, float(h[gid * ulong(width) + d]), float(dh[gid * ulong(width) + d]));
  }
  const float product = rounded(simd_added(sum));
  if (lane == 0) {
    const float r = norms[NORMALISER * rows + gid];
    const FloatFloat below = {norms[DENOMINATOR * rows + gid], norms[DENOMINATOR_LOW * rows + gid]};
    // h was divided by the rounded denominator too.
    const float share = product / below.high * (1.0f - 2.0f * below.low / below.high);
    deltas[NORMALISER_GRADIENT * rows + gid] = r == 0.0f ? 0.0f : r > 0.0f ? -share : share;
    deltas[STABILISER_GRADIENT * rows + gid] = -share * eps;
    deltas[LEAST_GRADIENT * rows + gid] = r == 0.0f ? share * to_float(below + -eps) : 0.0f;
  }
}

// dS of each chunk, key by key as the scores are; P_tt, and sums of P_ts with s < t over s (of rows) and over the 32 rows
// of a block (of keys). A lane has a row. grid: blocks of 32 rows of all chunks, heads.
template <typename T, uint ROOM, uint SLICE>
[[kernel]] void mlstm_score_gradient(
    device const T* dh [[buffer(0)]],
    device const T* v [[buffer(1)]],
    device const float* gates [[buffer(2)]],
    device const float* norms [[buffer(3)]],
    device const float* deltas [[buffer(4)]],
    device const float* scores [[buffer(5)]],
    device float* gradients [[buffer(6)]],
    device float* own [[buffer(7)]],
    device float* row_sums [[buffer(8)]],
    device float* key_sums [[buffer(9)]],
    constant long& heads [[buffer(10)]],
    constant long& length [[buffer(11)]],
    constant long& width [[buffer(12)]],
    constant long& chunk [[buffer(13)]],
    constant float& scale [[buffer(14)]],
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
  ExactSum row_sum = {0.0f, 0.0f};
  float diagonal = 0.0f;
  const ulong matrix = block.matrix(head, uint(length), uint(chunk));
  device float* of_keys = key_sums + (head * ulong(block.blocks) + gid.x) * chunk;
  for (uint from = 0; from < block.last; from += ROWS) {
    fill_rows(tile, v + start * width, uint(width), from, block.rows, One{}, at);
    float sums[ROWS];
    clear(sums);
    add_products(sums, mine, tile, uint(width), begin, count);
    join_slices(sums, partial, at);
#pragma unroll
    for (uint e = 0; e < ROWS; ++e) {
      const uint s = from + e;
      if (e % at.groups == at.group && s < uint(chunk)) {
        const ulong key = start + min(s, block.rows - 1);
        const float weight = decay_of(row, row_low, gates[KEY * plane + key], gates[KEY_LOW * plane + key]);
        const bool is_seen = block.row < block.rows && s <= block.row;
        const float gradient = is_seen ? sums[e] / below + dr : 0.0f;
        const ulong to = matrix + s * ulong(chunk) + min(block.row, uint(chunk) - 1);
        const float product = is_seen ? gradient * scores[to] : 0.0f;
        if (block.row < uint(chunk)) {
          gradients[to] = gradient * weight * scale;
        }
        diagonal += s == block.row ? product : 0.0f;
        const float past = s == block.row ? 0.0f : product;
        row_sum = added(row_sum, past);
        const ExactSum key_sum = simd_added({past, 0.0f});
        if (at.lane == 0) {
          of_keys[s] = rounded(key_sum);
        }
      }
    }
  }
  float both[2] = {rounded(row_sum), diagonal};
  if (at.groups > 1) {
    for (uint j = 0; j < 2; ++j) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      partial[at.group * 32 + at.lane] = both[j];
      threadgroup_barrier(mem_flags::mem_threadgroup);
      ExactSum sum = {0.0f, 0.0f};
      for (uint g = 0; g < at.groups; ++g) {
        sum = added(sum, partial[g * 32 + at.lane]);
      }
      both[j] = rounded(sum);
    }
  }
  if (block.row < block.rows && at.group == 0) {
    row_sums[place] = both[0];
    own[place] = both[1];
  }
}

inline ExactSum total_of(device const float* shares, uint n) {
  ExactSum sum = {0.0f, 0.0f};
  for (uint j = 0; j < n; ++j) {
    sum = added(sum, shares[j]);
  }
  return sum;
}

// Of n numbers and the errors behind each.
inline float total_of_pairs(device const float* shares, uint n) {
  ExactSum sum = {0.0f, 0.0f};
  for (uint j = 0; j < n; ++j) {
    sum = added(sum, shares[j * 2]);
    sum.error += shares[j * 2 + 1];
  }
  return rounded(sum);
}

// di, df and dm of the first state: a thread a head, backwards. grid: heads.
template <typename T, typename S>
[[kernel]] void mlstm_gate_gradient(
    device const T* i [[buffer(0)]],
    device const T* f [[buffer(1)]],
    device const float* gates [[buffer(2)]],
    device const float* keep [[buffer(3)]],
    device const float* deltas [[buffer(4)]],
    device const float* own [[buffer(5)]],
    device const float* row_sums [[buffer(6)]],
    device const float* key_sums [[buffer(7)]],
    device const float* read [[buffer(8)]],
    device const float* written [[buffer(9)]],
    device const float* shares [[buffer(10)]],
    device const float* dm_last [[buffer(11)]],
    device T* di [[buffer(12)]],
    device T* df [[buffer(13)]],
    device S* dm_initial [[buffer(14)]],
    constant long& heads [[buffer(15)]],
    constant long& length [[buffer(16)]],
    constant long& chunk [[buffer(17)]],
    constant long& elements [[buffer(18)]],
    uint head [[thread_position_in_grid]]) {
  if (head >= uint(heads)) {
    return;
  }
  const float d_last = has_last ? dm_last[head] : 0.0f;
  const ulong plane = heads * length;
  const ulong start = head * ulong(length);
  const uint size = uint(chunk);
  const uint parts = uint(elements);  // blocks of 32
  const uint chunks = uint((length + chunk - 1) / chunk);
  const uint blocks = (size + 31) / 32;
  device const float* of_head = shares + head * ulong(chunks + 2) * parts * 2;
  // The last states are times exp(-m).
  float dm = is_sigmoid ? 0.0f : d_last - total_of_pairs(of_head + chunks * ulong(parts) * 2, parts);
  // Then I is 1 where m is i: what is left of a cancellation is noise, and only exp(-m) feels i.
  const bool is_alone = !has_states && length == 1;
  for (uint j = 0; j < chunks; ++j) {
    const uint c = chunks - 1 - j;
    const uint from = c * size;
    const uint to = min(from + size, uint(length));
    device const float* keys = key_sums + (head * ulong(chunks) + c) * blocks * size;
    FloatFloat sum = from_float(total_of_pairs(of_head + c * ulong(parts) * 2, parts) * keep[head * ulong(chunks) + c]);
    for (uint t = from; t < to; ++t) {
      sum = sum + rounded(total_of(written + (start + t) * parts, parts));
    }
    for (uint t = to; t-- > from;) {
      const ulong place = start + t;
      const float taken = rounded(total_of(written + place * parts, parts));
      const uint last = (to - from + 31) / 32;
      ExactSum key = {0.0f, 0.0f};
      for (uint b = (t - from) / 32; b < last; ++b) {  // blocks before see nothing of it
        key = added(key, keys[b * size + t - from]);
      }
      sum = (sum - taken) + rounded(total_of(read + place * parts, parts));
      sum = (sum + row_sums[place]) - rounded(key);
      const float in = float(i[place]);
      float d_in = rounded(added(added(key, own[place]), taken));
      float d_log = sum.high;
      if (is_sigmoid) {
        d_in *= sigmoid_of(-in);
      } else {
        dm += deltas[STABILISER_GRADIENT * plane + place];
        const bool is_input = in == gates[STABILISER * plane + place];  // the larger of the two
        d_in = is_input ? (is_alone ? d_last + deltas[LEAST_GRADIENT * plane + place] : d_in + dm) : d_in;
        d_log += is_input ? 0.0f : dm;
        dm = is_input ? 0.0f : dm;
      }
      di[place] = T(d_in);
      df[place] = T(d_log * sigmoid_of(-float(f[place])));
    }
  }
  if (has_states) {
    dm_initial[head] = S(is_sigmoid ? 0.0f : dm + total_of_pairs(of_head + (chunks + 1) * ulong(parts) * 2, parts));
  }
}

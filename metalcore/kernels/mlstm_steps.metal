// mLSTM row by row, for few rows: the four passes of mlstm_scan.metal with chunks of one row, where is_exact with a second
// number for everything: what its roundings lost. Of few results plain sums of others may happen to be near nothing.
//   forward:   X = F X + I write lane,  out = read X           backward:  X += write lane,  out = read X,  X = F X
#include "mlstm.h"

constant bool has_states [[function_constant(1)]];
constant bool is_backwards [[function_constant(2)]];
constant bool is_of_keys [[function_constant(3)]];
constant bool keeps_states [[function_constant(4)]];
constant bool is_exact [[function_constant(5)]];
constant bool has_last [[function_constant(6)]];  // the last states have a gradient

inline FloatFloat times(FloatFloat a, FloatFloat b) {
  return is_exact ? a * b : FloatFloat{a.high * b.high, 0.0f};
}

inline FloatFloat plus_product(FloatFloat sum, FloatFloat a, FloatFloat b) {
  return is_exact ? sum + a * b : FloatFloat{fma(a.high, b.high, sum.high), 0.0f};
}

inline FloatFloat over(FloatFloat a, FloatFloat b) { return is_exact ? a / b : FloatFloat{a.high / b.high, 0.0f}; }

inline FloatFloat total_of_lanes(FloatFloat mine) {
  return is_exact ? simd_total(mine) : FloatFloat{simd_sum(mine.high), 0.0f};
}

inline FloatFloat gate_at(device const float* gates, uint high, uint low, ulong plane, ulong t) {
  return {gates[high * plane + t], is_exact ? gates[low * plane + t] : 0.0f};
}

// n, r and the denominator of each row: a simdgroup a head, lanes are elements. grid: heads.
template <typename T, typename S, uint ROOM>
[[kernel]] void mlstm_step_normaliser(
    device const T* q [[buffer(0)]],
    device const T* k [[buffer(1)]],
    device const float* gates [[buffer(2)]],
    device const S* n_initial [[buffer(3)]],
    device float* norms [[buffer(4)]],
    device float* n_last [[buffer(5)]],
    constant long& heads [[buffer(6)]],
    constant long& length [[buffer(7)]],
    constant long& depth [[buffer(8)]],
    constant float& scale [[buffer(9)]],
    constant float& eps [[buffer(10)]],
    uint head [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PARTS = ROOM / 32;
  const ulong plane = heads * length;
  FloatFloat n[PARTS];
  for (uint j = 0; j < PARTS; ++j) {
    const uint d = j * 32 + lane;
    n[j] = {has_states && d < uint(depth) ? float(n_initial[head * ulong(depth) + d]) : 0.0f, 0.0f};
  }
  for (ulong t = head * ulong(length); t < (head + 1) * ulong(length); ++t) {
    const FloatFloat forget = gate_at(gates, FORGET, FORGET_LOW, plane, t);
    const FloatFloat input = gate_at(gates, INPUT, INPUT_LOW, plane, t);
    FloatFloat sum = {0.0f, 0.0f};
    for (uint j = 0; j < PARTS; ++j) {
      const uint d = j * 32 + lane;
      if (d < uint(depth)) {
        n[j] = plus_product(times(forget, n[j]), input, from_float(float(k[t * depth + d])));
        sum = plus_product(sum, n[j], from_float(float(q[t * depth + d])));
      }
    }
    const FloatFloat r = times(total_of_lanes(sum), from_float(scale));
    if (lane == 0) {
      const FloatFloat least = least_below(gates, plane, t);
      const FloatFloat size = r.high < 0.0f ? -r : r;
      const FloatFloat larger = size > least ? size : least;
      const FloatFloat below = is_exact ? larger + eps : FloatFloat{larger.high + eps, 0.0f};
      norms[NORMALISER * plane + t] = size > least ? r.high : 0.0f;
      norms[DENOMINATOR * plane + t] = below.high;
      norms[DENOMINATOR_LOW * plane + t] = below.low;
    }
  }
  for (uint j = 0; j < PARTS; ++j) {
    const uint d = j * 32 + lane;
    if (d < uint(depth)) {
      n_last[head * ulong(depth) + d] = n[j].high;
    }
  }
}

// A lane has a column of X. grid: blocks of 32 columns, heads.
template <typename T, typename S, typename L, uint ROOM>
[[kernel]] void mlstm_steps(
    device const T* lanes [[buffer(0)]],
    device const T* read [[buffer(1)]],
    device const T* write [[buffer(2)]],
    device const T* own [[buffer(3)]],
    device const float* gates [[buffer(4)]],
    device const float* norms [[buffer(5)]],
    device const float* deltas [[buffer(6)]],
    device const S* initial [[buffer(7)]],
    device const S* n_initial [[buffer(8)]],
    device T* out [[buffer(9)]],
    device float* out_low [[buffer(10)]],
    device L* last [[buffer(11)]],
    device L* n_last [[buffer(12)]],
    device float* states [[buffer(13)]],
    device const float* kept_states [[buffer(14)]],
    device float* shares [[buffer(15)]],
    constant long& heads [[buffer(16)]],
    constant long& length [[buffer(17)]],
    constant long& depth [[buffer(18)]],
    constant long& width [[buffer(19)]],
    constant float& scale [[buffer(20)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint3 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint head = gid.y;
  const uint column = gid.x * 32 + lane;
  const bool is_column = column < uint(width);
  const uint mine = min(column, uint(width) - 1);
  const ulong plane = heads * length;
  const ulong state_step = is_of_keys ? 1 : width;
  const ulong state_start = head * ulong(depth * width) + (is_of_keys ? mine * ulong(depth) : mine);
  const ulong kept_size = ulong(depth + 1) * 64;  // two numbers of 32 lanes
  const ulong kept_start = (head * ulong(length + 1) * groups.x + gid.x) * kept_size + lane;

  FloatFloat x[ROOM];
  for (uint p = 0; p < uint(depth); ++p) {
    x[p] = {has_states ? float(initial[state_start + p * state_step]) : 0.0f, 0.0f};
  }
  FloatFloat n = {is_of_keys && has_states ? float(n_initial[head * ulong(width) + mine]) : 0.0f, 0.0f};

  for (uint j = 0; j <= uint(length); ++j) {
    const uint row = is_backwards ? uint(length) - j : j;  // states before row `row`, after the one before it
    if (keeps_states && !is_backwards) {
      device float* to = states + kept_start + row * groups.x * kept_size;
      for (uint p = 0; p < uint(depth); ++p) {
        to[p * 64] = x[p].high;
        to[p * 64 + 32] = x[p].low;
      }
      to[depth * 64] = n.high;
      to[depth * 64 + 32] = n.low;
    }
    if (keeps_states && is_backwards) {  // the product of a state and its gradient
      device const float* from = kept_states + kept_start + row * groups.x * kept_size;
      FloatFloat share = times(n, {from[depth * 64], from[depth * 64 + 32]});
      for (uint p = 0; p < uint(depth); ++p) {
        share = plus_product(share, x[p], {from[p * 64], from[p * 64 + 32]});
      }
      share = total_of_lanes(is_column ? share : FloatFloat{0.0f, 0.0f});
      if (lane == 0) {
        device float* to = shares + ((head * ulong(length + 1) + row) * groups.x + gid.x) * 4;
        to[0] = share.high;
        to[1] = share.low;
      }
    }
    if (j == uint(length)) {
      break;
    }
    const ulong t = head * ulong(length) + (is_backwards ? row - 1 : row);
    const FloatFloat forget = gate_at(gates, FORGET, FORGET_LOW, plane, t);
    const FloatFloat input = gate_at(gates, INPUT, INPUT_LOW, plane, t);
    const FloatFloat below = gate_at(norms, DENOMINATOR, DENOMINATOR_LOW, plane, t);
    const FloatFloat scaled = over(from_float(scale), below);
    FloatFloat dr = {0.0f, 0.0f};
    if (is_of_keys) {
      dr = gate_at(deltas, NORMALISER_GRADIENT, NORMALISER_GRADIENT_LOW, plane, t);
    }
    // What this row adds to X is its lane's number times a row; dh stands for dh / d.
    FloatFloat one = from_float(float(lanes[t * width + mine]));
    one = times(one, is_backwards ? scaled : input);
    FloatFloat sum = {0.0f, 0.0f};
    for (uint from = 0; from < uint(depth); from += TERMS) {  // sums of TERMS products have fewer roundings
      FloatFloat part = {0.0f, 0.0f};
      for (uint p = from; p < min(from + TERMS, uint(depth)); ++p) {
        const FloatFloat kept = is_backwards ? x[p] : times(forget, x[p]);
        x[p] = plus_product(kept, one, from_float(float(write[t * depth + p])));
        part = plus_product(part, x[p], from_float(float(read[t * depth + p])));
        if (is_backwards) {
          x[p] = times(forget, x[p]);
        }
      }
      sum = is_exact ? sum + part : FloatFloat{sum.high + part.high, 0.0f};
    }
    if (is_of_keys) {
      const FloatFloat of_r = times(dr, below);  // beside dh without its denominator
      n = is_backwards ? plus_product(n, one, of_r) : plus_product(times(forget, n), one, {1.0f, 0.0f});
      sum = plus_product(sum, n, is_backwards ? FloatFloat{1.0f, 0.0f} : of_r);
      n = is_backwards ? times(forget, n) : n;
    }
    const FloatFloat found = times(sum, is_backwards ? input : scaled);
    if (is_column) {
      out[t * width + column] = T(found.high);
      if (!is_of_keys && !is_backwards) {
        out_low[t * width + column] = found.high - float(T(found.high)) + found.low;
      }
    }
    if (keeps_states && is_backwards) {  // k dk
      const FloatFloat product = is_column ? times(found, from_float(float(own[t * width + mine]))) : FloatFloat{0.0f, 0.0f};
      const FloatFloat total = total_of_lanes(product);
      if (lane == 0) {
        device float* to = shares + ((head * ulong(length + 1) + row - 1) * groups.x + gid.x) * 4;
        to[2] = total.high;
        to[3] = total.low;
      }
    }
  }
  if (!is_column) {
    return;
  }
  if (!is_of_keys) {
    for (uint p = 0; p < uint(depth); ++p) {
      last[state_start + p * state_step] = L(x[p].high);
    }
  } else if (is_backwards) {
    n_last[head * ulong(width) + column] = L(n.high);
  }
}

// dr and dm of each row: a simdgroup a row. grid: rows of all heads.
template <typename T>
[[kernel]] void mlstm_step_delta(
    device const T* h [[buffer(0)]],
    device const float* h_low [[buffer(1)]],
    device const T* dh [[buffer(2)]],
    device const float* norms [[buffer(3)]],
    device float* deltas [[buffer(4)]],
    constant long& rows [[buffer(5)]],
    constant long& width [[buffer(6)]],
    constant float& eps [[buffer(7)]],
    uint gid [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  FloatFloat sum = {0.0f, 0.0f};
  for (uint d = lane; d < uint(width); d += 32) {
    const ulong place = gid * ulong(width) + d;
    sum = plus_product(sum, {float(h[place]), h_low[place]}, from_float(float(dh[place])));
  }
  sum = total_of_lanes(sum);
  if (lane == 0) {
    const FloatFloat below = gate_at(norms, DENOMINATOR, DENOMINATOR_LOW, rows, gid);
    const FloatFloat share = over(sum, below);
    const float r = norms[NORMALISER * rows + gid];
    const FloatFloat dr = r > 0.0f ? -share : share;
    deltas[NORMALISER_GRADIENT * rows + gid] = r == 0.0f ? 0.0f : dr.high;
    deltas[NORMALISER_GRADIENT_LOW * rows + gid] = r == 0.0f ? 0.0f : dr.low;
    deltas[STABILISER_GRADIENT * rows + gid] = -share.high * eps;
    deltas[LEAST_GRADIENT * rows + gid] = r == 0.0f ? to_float(times(share, below + -eps)) : 0.0f;
  }
}

inline FloatFloat total_of_blocks(device const float* shares, uint blocks) {
  FloatFloat sum = {0.0f, 0.0f};
  for (uint j = 0; j < blocks; ++j) {
    sum = sum + FloatFloat{shares[j * 4], shares[j * 4 + 1]};
  }
  return sum;
}

// di, df and dm of the first state: a thread a head, backwards. grid: heads.
template <typename T, typename S>
[[kernel]] void mlstm_step_gates(
    device const T* i [[buffer(0)]],
    device const T* f [[buffer(1)]],
    device const float* gates [[buffer(2)]],
    device const float* deltas [[buffer(3)]],
    device const float* shares [[buffer(4)]],
    device const float* dm_last [[buffer(5)]],
    device T* di [[buffer(6)]],
    device T* df [[buffer(7)]],
    device S* dm_initial [[buffer(8)]],
    constant long& heads [[buffer(9)]],
    constant long& length [[buffer(10)]],
    constant long& blocks [[buffer(11)]],
    uint head [[thread_position_in_grid]]) {
  if (head >= uint(heads)) {
    return;
  }
  const float d_last = has_last ? dm_last[head] : 0.0f;
  const ulong plane = heads * length;
  device const float* of_head = shares + head * ulong(length + 1) * blocks * 4;
  FloatFloat dm = {0.0f, 0.0f};  // of the stabiliser after row t
  if (!is_sigmoid) {
    dm = -total_of_blocks(of_head + length * blocks * 4, uint(blocks)) + d_last;  // states are times exp(-m)
  }
  for (uint t = uint(length); t-- > 0;) {
    const ulong place = head * ulong(length) + t;
    const float in = float(i[place]);
    FloatFloat d_log = total_of_blocks(of_head + t * blocks * 4, uint(blocks));
    FloatFloat d_in = total_of_blocks(of_head + t * blocks * 4 + 2, uint(blocks));
    if (is_sigmoid) {
      d_in = d_in * exp_of(log_sigmoid(-in));
    } else {
      dm = dm + deltas[STABILISER_GRADIENT * plane + place];
      if (in == gates[STABILISER * plane + place]) {  // the larger of the two
        // Of one row alone I is 1: what is left of a cancellation is noise, and only exp(-m) feels i.
        d_in = !has_states && length == 1 ? from_float(d_last) + deltas[LEAST_GRADIENT * plane + place] : d_in + dm;
        dm = {0.0f, 0.0f};
      } else {
        d_log = d_log + dm;
      }
    }
    di[place] = T(to_float(d_in));
    df[place] = T(to_float(d_log * exp_of(log_sigmoid(-float(f[place])))));
  }
  if (has_states) {
    dm = dm + total_of_blocks(of_head, uint(blocks));
    dm_initial[head] = S(is_sigmoid ? 0.0f : dm.high);
  }
}

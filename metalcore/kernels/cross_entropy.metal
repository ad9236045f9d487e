// lse = log(sum over c of exp(x_c)),  log p_c = x_c - lse
// a class t:         l = -(1 - e) w_t log p_t - e / C sum(w_c log p_c) + z lse^2
// probabilities q:   l = -sum(((1 - e) q_c + e / C) w_c log p_c) + z lse^2          (e: label smoothing, z: z-loss)
// dl/dx_c = p_c (mass + 2 z lse) - mass_c,  mass_c: what stands before -log p_c, mass: its sum over c
//
// The logits are read once, in chunks that stay in the cache: a chunk's maximum first, then its exponentials. Only the
// row's maximum and sum are kept, as two numbers: lse itself loses digits where the logits are large.
#include "exact_sum.h"
#include "index.h"
#include "wide.h"

// Classes lie `stride` apart and each thread has a row of its own, as in (N, C, d1, ...); else a row is a threadgroup.
constant bool in_columns [[function_constant(0)]];
constant bool is_capped [[function_constant(1)]];

constant uint CHUNK = 32;      // steps of a threadgroup between two changes of the running maximum
constant uint IS_WEIGHTED = 1;
constant uint IS_MEAN = 2;
constant uint IS_PER_ROW = 4;  // no reduction
constant uint WANTS_TARGET = 8;

// Whether a target of type Q holds probabilities.
template <typename Q>
struct Soft {
  enum { value = !is_integral<Q>::value };
};

template <uint V, typename T>
inline wide<float, V> logits(device const T* x, uint i, ulong stride, float cap) {
  wide<float, V> v;
  if (in_columns) {
    v = wide<float, V>(float(x[i * stride]));
  } else {
    v = load<V>(x, i);
  }
  return is_capped ? cap * tanh(v / cap) : v;
}

template <uint V, typename T>
inline wide<float, V> plain(device const T* x, uint i, ulong stride) {
  if (in_columns) {
    return wide<float, V>(float(x[i * stride]));
  }
  return load<V>(x, i);
}

template <uint V, typename T>
inline void put(device T* x, uint i, ulong stride, wide<float, V> value) {
  if (in_columns) {
    x[i * stride] = T(largest(value));  // V is 1
  } else {
    store<V>(x, i, value);
  }
}

// How the capped logits v follow the input.
template <typename F>
inline F slope(F v, float cap) {
  return is_capped ? 1.0f - (v / cap) * (v / cap) : F(1.0f);
}

// What stands before -log p_c of class i.
template <uint V, typename T, typename Q>
inline wide<float, V> mass_of(
    device const Q* target, device const T* weight, uint i, ulong stride, float share, float smoothing, uint flags) {
  wide<float, V> m = wide<float, V>(share);
  if (Soft<Q>::value) {
    m += (1.0f - smoothing) * plain<V>(target, i, stride);
  }
  return flags & IS_WEIGHTED ? m * load<V>(weight, i) : m;
}

// Where a thread works: its row, the first class it takes and how far the next one is.
struct Place {
  ulong row;
  ulong offset;
  uint first;
  uint step;
};

inline Place place(uint3 group, uint3 lid, uint3 group_size, ulong classes, ulong stride) {
  if (in_columns) {
    const ulong column = ulong(group.x) * group_size.x + lid.x;
    return {group.y * stride + column, group.y * classes * stride + column, 0, 1};
  }
  return {group.x, group.x * classes, lid.x, group_size.x};
}

// losses: of each row; state: maximum and sum of exponentials of each row. Q: type of the target, V: elements at once.
template <typename T, typename Q, uint V>
[[kernel]] void cross_entropy_forward(
    device const T* x [[buffer(0)]],
    device const Q* target [[buffer(1)]],
    device const T* weight [[buffer(2)]],
    device float* losses [[buffer(3)]],
    device float* state [[buffer(4)]],
    constant long& classes [[buffer(5)]],
    constant long& stride [[buffer(6)]],
    constant long& ignore_index [[buffer(7)]],
    constant float& smoothing [[buffer(8)]],
    constant float& z_loss [[buffer(9)]],
    constant float& cap [[buffer(10)]],
    constant long& options [[buffer(11)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  using F = wide<float, V>;
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const Place my = place(group, lid, group_size, classes, stride);
  if (in_columns && my.row >= (group.y + 1) * ulong(stride)) {
    return;
  }
  const uint flags = uint(options);
  const uint steps = uint(classes) / V;
  const bool is_soft = Soft<Q>::value;
  x += my.offset;

  float top = -FLT_MAX;  // finite, so that a chunk of -inf alone adds zeros
  float sum = 0.0f;
  for (uint begin = 0; begin < steps; begin += CHUNK * my.step) {
    const uint end = min(begin + CHUNK * my.step, steps);
    F above = F(top);
    for (uint i = begin + my.first; i < end; i += my.step) {
      above = max(above, logits<V>(x, i, stride, cap));
    }
    const float next = largest(above);
    F part = F(0.0f);
    for (uint i = begin + my.first; i < end; i += my.step) {
      part += exp(logits<V>(x, i, stride, cap) - next);
    }
    sum = sum * exp(top - next) + total(part);
    top = next;
  }
  if (!in_columns) {
    const float all = group_max(top, partial, at);
    sum = group_sum(sum * exp(top - all), partial, at);
    top = all;
  }
  const float log_sum = log(sum);

  const float share = smoothing / float(classes);
  float loss = 0.0f;
  bool is_ignored = false;
  if (is_soft || smoothing > 0.0f) {
    F far = F(0.0f);
    F mass = F(0.0f);
    device const Q* q = is_soft ? target + my.offset : target;
    for (uint i = my.first; i < steps; i += my.step) {
      const F m = mass_of<V>(q, weight, i, stride, share, smoothing, flags);
      far += m * (top - logits<V>(x, i, stride, cap));
      mass += m;
    }
    float distance = total(far);
    float whole = total(mass);
    if (!in_columns) {
      distance = group_sum(distance, partial, at);
      whole = group_sum(whole, partial, at);
    }
    loss = distance + whole * log_sum;
  }
  if (!is_soft) {
    const long t = long(target[my.row]);
    is_ignored = t == ignore_index;
    if (t < 0 || t >= classes) {
      loss = NAN;
    } else if (!is_ignored) {
      const float v = float(x[t * stride]);
      const float w = flags & IS_WEIGHTED ? float(weight[t]) : 1.0f;
      loss += (1.0f - smoothing) * w * (top - (is_capped ? cap * tanh(v / cap) : v) + log_sum);
    }
  }
  const float lse = top + log_sum;
  loss = is_ignored || classes == 0 ? 0.0f : loss + z_loss * lse * lse;
  if (in_columns || lid.x == 0) {
    losses[my.row] = loss;
    state[2 * my.row] = top;
    state[2 * my.row + 1] = sum;
  }
}

// One threadgroup: the mean or sum over rows (or each row's loss) in type L, what a mean is divided by, and the first
// target that is out of range: errors = {1, row, value}.
template <typename T, typename Q, typename L>
[[kernel]] void cross_entropy_finish(
    device const float* losses [[buffer(0)]],
    device const Q* target [[buffer(1)]],
    device const T* weight [[buffer(2)]],
    device L* loss [[buffer(3)]],
    device float* divisor [[buffer(4)]],
    device long* errors [[buffer(5)]],
    constant long& rows [[buffer(6)]],
    constant long& classes [[buffer(7)]],
    constant long& ignore_index [[buffer(8)]],
    constant long& options [[buffer(9)]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float values[32];
  threadgroup float rests[32];
  threadgroup uint firsts[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint flags = uint(options);
  ExactSum sums = {0.0f, 0.0f};
  ExactSum shares = {0.0f, 0.0f};
  uint first = uint(rows);
  for (uint row = lid; row < uint(rows); row += group_size) {
    if (!Soft<Q>::value) {
      const long t = long(target[row]);
      if (t != ignore_index) {
        const bool is_in = t >= 0 && t < classes;
        first = is_in ? first : min(first, row);
        shares = added(shares, is_in && (flags & IS_WEIGHTED) ? float(weight[t]) : 1.0f);
      }
    }
    if (flags & IS_PER_ROW) {
      loss[row] = L(losses[row]);
    } else {
      sums = added(sums, losses[row]);
    }
  }
  const float sum = group_added(sums, values, rests, at);
  const float share = Soft<Q>::value ? float(rows) : group_added(shares, values, rests, at);
  first = group_least(first, firsts, at);
  if (lid == 0) {
    if (!(flags & IS_PER_ROW)) {
      loss[0] = L(flags & IS_MEAN ? sum / share : sum);
    }
    divisor[0] = flags & IS_MEAN ? share : 1.0f;
    report_index(errors, target, first, rows);
  }
}

// dx; dtarget = -(1 - e) w_c log p_c where it is asked for (probabilities).
template <typename T, typename Q, typename L, uint V>
[[kernel]] void cross_entropy_backward(
    device const L* g [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device const Q* target [[buffer(2)]],
    device const T* weight [[buffer(3)]],
    device const float* state [[buffer(4)]],
    device const float* divisor [[buffer(5)]],
    device T* dx [[buffer(6)]],
    device T* dtarget [[buffer(7)]],
    constant long& classes [[buffer(8)]],
    constant long& stride [[buffer(9)]],
    constant long& ignore_index [[buffer(10)]],
    constant float& smoothing [[buffer(11)]],
    constant float& z_loss [[buffer(12)]],
    constant float& cap [[buffer(13)]],
    constant long& options [[buffer(14)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group_size [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  using F = wide<float, V>;
  threadgroup float partial[32];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const Place my = place(group, lid, group_size, classes, stride);
  if (in_columns && my.row >= (group.y + 1) * ulong(stride)) {
    return;
  }
  const uint flags = uint(options);
  const uint steps = uint(classes) / V;
  const bool is_soft = Soft<Q>::value;
  const float share = smoothing / float(classes);
  const float top = state[2 * my.row];
  const float sum = state[2 * my.row + 1];
  device const Q* q = is_soft ? target + my.offset : target;
  x += my.offset;
  dx += my.offset;
  dtarget += my.offset;

  const long t = is_soft ? 0 : long(target[my.row]);
  const bool is_in = t >= 0 && t < classes;
  const bool is_ignored = !is_soft && t == ignore_index;
  const float scale = is_ignored ? 0.0f : float(g[flags & IS_PER_ROW ? my.row : 0]) / divisor[0];
  float mass = smoothing;
  if (is_soft || (smoothing > 0.0f && (flags & IS_WEIGHTED))) {
    F masses = F(0.0f);
    for (uint i = my.first; i < steps; i += my.step) {
      masses += mass_of<V>(q, weight, i, stride, share, smoothing, flags);
    }
    mass = in_columns ? total(masses) : group_sum(total(masses), partial, at);
  }
  float own = 0.0f;  // of the class that is the target
  if (!is_soft) {
    own = is_in ? (1.0f - smoothing) * (flags & IS_WEIGHTED ? float(weight[t]) : 1.0f) : is_ignored ? 0.0f : NAN;
    mass += own;
  }
  const float log_sum = log(sum);
  const float before = scale * (mass + 2.0f * z_loss * (top + log_sum)) / sum;
  for (uint i = my.first; i < steps; i += my.step) {
    const F v = logits<V>(x, i, stride, cap);
    const F m = mass_of<V>(q, weight, i, stride, share, smoothing, flags);
    put<V>(dx, i, stride, (exp(v - top) * before - scale * m) * slope(v, cap));
    if (is_soft && (flags & WANTS_TARGET)) {
      const F d = (1.0f - smoothing) * scale * (top - v + log_sum);
      put<V>(dtarget, i, stride, flags & IS_WEIGHTED ? d * load<V>(weight, i) : d);
    }
  }
  if (!is_soft && is_in && (in_columns || (uint(t) / V) % my.step == my.first)) {
    const float u = float(x[t * stride]);
    const float v = is_capped ? cap * tanh(u / cap) : u;
    const float w = flags & IS_WEIGHTED ? float(weight[t]) : 1.0f;
    const float d = exp(v - top) * before - scale * (own + share * w);
    dx[t * stride] = T(d * slope(v, cap));
  }
}

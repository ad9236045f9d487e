// y[t] = f(bias + sum over k of weight[k] x[t + k - (width - 1)]): each channel by itself, x before its start is the
// state, or 0; f is the identity or silu. d[t] = g[t] f'(...) gives dx[t] = sum over k of weight[k] d[t + (width - 1) - k],
// dweight[k] = sum over t of d[t] x[t + k - (width - 1)], dbias = sum over t of d[t].
#include "activation.h"
#include "exact_silu.h"

constant bool is_silu [[function_constant(0)]];
// Sums over tokens cancel, and where channels are few, no larger one stands beside: then d comes with its error.
constant bool is_exact [[function_constant(1)]];

// One channel of one sequence.
template <typename T>
struct Channel {
  device const T* x;
  device const T* weight;
  device const T* state;
  long width;
  long length;
  float bias;
  bool has_state;

  // x[j], from the state where j is below 0
  float at(long j) const {
    const bool is_past = j < 0;
    if (is_past && !has_state) {
      return 0.0f;
    }
    return float(is_past ? state[j + width - 1] : x[j]);
  }

  // The sum whose window reaches before x.
  float early(long t) const {
    float sum = bias;
    for (long k = 0; k < width; k++) {
      sum = fma(float(weight[k]), at(t + k - (width - 1)), sum);
    }
    return sum;
  }

  // The same with its error, for any t.
  ExactSum exact(long t) const {
    ExactSum sum = {bias, 0.0f};
    for (long k = 0; k < width; k++) {
      sum = added_product(sum, float(weight[k]), at(t + k - (width - 1)));
    }
    return sum;
  }

  // The sum whose window lies in x.
  float late(uint t) const {
    float sum = bias;
    device const T* window = x - (width - 1);
    for (long k = 0; k < width; k++) {
      sum = fma(float(weight[k]), float(window[k + t]), sum);
    }
    return sum;
  }
};

template <typename T>
[[kernel]] void causal_conv1d_forward(
    device const T* x [[buffer(0)]],
    device const T* weight [[buffer(1)]],
    device const T* bias [[buffer(2)]],
    device const T* state [[buffer(3)]],
    device T* y [[buffer(4)]],
    device T* new_state [[buffer(5)]],
    constant long& channels [[buffer(6)]],
    constant long& length [[buffer(7)]],
    constant long& width [[buffer(8)]],
    constant long& has_bias [[buffer(9)]],
    constant long& has_state [[buffer(10)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 thread_at [[thread_position_in_threadgroup]],
    uint3 threads [[threads_per_threadgroup]]) {
  const long channel = group.x;
  const long row = group.y * channels + channel;
  const long past = width - 1;
  const Channel<T> at = {
      x + row * length, weight + channel * width, state + row * past, width, length,
      has_bias != 0 ? float(bias[channel]) : 0.0f, has_state != 0};
  y += row * length;
  const uint head = uint(min(past, length));
  for (uint t = thread_at.x; t < head; t += threads.x) {
    const float sum = at.early(t);
    y[t] = T(is_silu ? silu(sum) : sum);
  }
  for (uint t = head + thread_at.x; t < uint(length); t += threads.x) {
    const float sum = at.late(t);
    y[t] = T(is_silu ? silu(sum) : sum);
  }
  if (has_state != 0) {
    for (uint i = thread_at.x; i < uint(past); i += threads.x) {
      new_state[row * past + i] = T(at.at(length + i - past));
    }
  }
}

// The same for few tokens: a thread takes a channel, and what is before x is so for all of them.
template <typename T>
[[kernel]] void causal_conv1d_short(
    device const T* x [[buffer(0)]],
    device const T* weight [[buffer(1)]],
    device const T* bias [[buffer(2)]],
    device const T* state [[buffer(3)]],
    device T* y [[buffer(4)]],
    device T* new_state [[buffer(5)]],
    constant long& channels [[buffer(6)]],
    constant long& length [[buffer(7)]],
    constant long& width [[buffer(8)]],
    constant long& has_bias [[buffer(9)]],
    constant long& has_state [[buffer(10)]],
    uint3 position [[thread_position_in_grid]]) {
  const uint channel = position.x;
  if (channel >= uint(channels)) {
    return;
  }
  const uint past = uint(width) - 1;
  const uint own = channel * uint(length);
  const uint own_past = channel * past;
  x += position.y * channels * length;
  y += position.y * channels * length;
  state += position.y * channels * past;
  new_state += position.y * channels * past;
  for (uint t = 0; t < uint(length); t++) {
    float sum = has_bias != 0 ? float(bias[channel]) : 0.0f;
    for (uint k = 0; k <= past; k++) {
      const float w = float(weight[channel * uint(width) + k]);
      if (t + k >= past) {
        sum = fma(w, float(x[own + (t + k - past)]), sum);
      } else if (has_state != 0) {
        sum = fma(w, float(state[own_past + (t + k)]), sum);
      }
    }
    y[own + t] = T(is_silu ? silu(sum) : sum);
  }
  if (has_state != 0) {
    for (uint i = 0; i < past; i++) {
      const uint j = uint(length) + i;
      new_state[own_past + i] = j >= past ? x[own + (j - past)] : state[own_past + j];
    }
  }
}

inline ExactSum added_term(ExactSum total, float d, float d_error, float x) {
  if (!is_exact) {
    return added(total, d * x);
  }
  total = added_product(total, d, x);
  total.error += d_error * x;
  return total;
}

// `d` is room for g[t] f'(...), `d_errors` for its error; `shares` and `bias_shares` are the sums of one sequence.
template <typename T>
[[kernel]] void causal_conv1d_backward(
    device const T* g [[buffer(0)]],
    device const T* g_state [[buffer(1)]],
    device const T* x [[buffer(2)]],
    device const T* weight [[buffer(3)]],
    device const T* bias [[buffer(4)]],
    device const T* state [[buffer(5)]],
    device T* dx [[buffer(6)]],
    device T* dstate [[buffer(7)]],
    device float* d [[buffer(8)]],
    device float* d_errors [[buffer(9)]],
    device float* shares [[buffer(10)]],
    device float* bias_shares [[buffer(11)]],
    constant long& channels [[buffer(12)]],
    constant long& length [[buffer(13)]],
    constant long& width [[buffer(14)]],
    constant long& has_bias [[buffer(15)]],
    constant long& has_state [[buffer(16)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 thread_at [[thread_position_in_threadgroup]],
    uint3 threads [[threads_per_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float values[32];
  threadgroup float errors[32];
  const Lane lane = {simd_lane_id, simd_group_id, simd_groups};
  const long channel = group.x;
  const long row = group.y * channels + channel;
  const long past = width - 1;
  const Channel<T> at = {
      x + row * length, weight + channel * width, state + row * past, width, length,
      has_bias != 0 ? float(bias[channel]) : 0.0f, has_state != 0};
  g += row * length;
  d += row * length;
  d_errors += row * length;
  dx += row * length;
  const uint head = uint(min(past, length));
  const uint end = uint(length);

  ExactSum total = {0.0f, 0.0f};
  for (uint t = thread_at.x; t < end; t += threads.x) {
    float di = float(g[t]);
    if (is_silu && is_exact) {
      const ExactSum exact = product_of({di, 0.0f}, exact_silu_slope(at.exact(t)));
      di = exact.value + exact.error;
      d_errors[t] = exact.error - (di - exact.value);
      total.error += d_errors[t];
    } else if (is_silu) {
      const float v = t < head ? at.early(t) : at.late(t);
      di *= silu_slope(v, sigmoid(v));
    }
    d[t] = di;
    total = added(total, di);
  }
  float sum = group_added(total, values, errors, lane);
  if (thread_at.x == 0) {
    bias_shares[row] = sum;
  }
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);

  for (long k = 0; k < width; k++) {
    const long back = past - k;  // d[t] meets x[t - back]
    total = {0.0f, 0.0f};
    for (uint t = thread_at.x; t < min(uint(back), end); t += threads.x) {
      total = added_term(total, d[t], is_exact && is_silu ? d_errors[t] : 0.0f, at.at(t - back));
    }
    device const T* from = at.x - back;
    for (uint t = uint(back) + thread_at.x; t < end; t += threads.x) {
      total = added_term(total, d[t], is_exact && is_silu ? d_errors[t] : 0.0f, float(from[t]));
    }
    sum = group_added(total, values, errors, lane);
    if (thread_at.x == 0) {
      shares[row * width + k] = sum;
    }
  }

  // x[j] of the past (j below 0) and of now: what it gives to d, and to the state that is handed on.
  for (uint t = thread_at.x; t < end - head; t += threads.x) {
    sum = 0.0f;
    for (long k = 0; k < width; k++) {
      sum = fma(float(at.weight[k]), (d + (past - k))[t], sum);
    }
    dx[t] = T(sum);
  }
  const long begin = has_state != 0 ? -past : 0;
  const long middle = long(end - head);
  for (long j = begin + thread_at.x; j < length; j += threads.x) {
    if (j < 0 || j >= middle) {
      sum = has_state != 0 && j + past >= length ? float(g_state[row * past + j + past - length]) : 0.0f;
      for (long k = 0; k < width; k++) {
        const long t = j + past - k;
        if (t >= 0 && t < length) {
          sum = fma(float(at.weight[k]), d[t], sum);
        }
      }
      if (j < 0) {
        dstate[row * past + j + past] = T(sum);
      } else {
        dx[j] = T(sum);
      }
    }
  }
}

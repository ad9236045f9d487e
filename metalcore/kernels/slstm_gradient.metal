// The gradients of slstm.metal, from what each of its steps left: back through time with draw, the gradients of raw,
//   dy = g + draw R^T,  then slstm_cell.h's `retreat`
// and after it dR = sum over sequences and time of y_before^T draw, db = sum of draw.
#include "slstm_cell.h"

constant bool has_states [[function_constant(0)]];

// turned[g, h, j, k] = R[g, h, k, j]
template <typename T>
[[kernel]] void slstm_turn(
    device const T* R [[buffer(0)]],
    device float* turned [[buffer(1)]],
    constant long& depth [[buffer(2)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 thread_at [[thread_position_in_threadgroup]],
    uint3 threads [[threads_per_threadgroup]]) {
  const uint width = uint(depth), j = group.x;
  const ulong matrix = ulong(group.y) * width * width;
  for (ulong k = thread_at.x; k < width; k += threads.x) {
    turned[matrix + j * width + k] = float(R[matrix + k * width + j]);
  }
}

// `draws` (gate, head, sequence, step, column) is dx with all of its digits; `carried` is room for the gradients of c, n and m, high parts first.
template <typename T, typename W, uint ROWS, uint E>
[[kernel]] void slstm_backward(
    device const T* grad_y [[buffer(0)]],
    device const float* grad_y_last [[buffer(1)]],
    device const float* grad_c_last [[buffer(2)]],
    device const float* grad_n_last [[buffer(3)]],
    device const float* grad_m_last [[buffer(4)]],
    device const float* turned [[buffer(5)]],
    device const W* c_state [[buffer(6)]],
    device const W* n_state [[buffer(7)]],
    device const float* history [[buffer(8)]],
    device T* dx [[buffer(9)]],
    device float* draws [[buffer(10)]],
    device W* dy_state [[buffer(11)]],
    device W* dc_state [[buffer(12)]],
    device W* dn_state [[buffer(13)]],
    device W* dm_state [[buffer(14)]],
    device float* carried [[buffer(15)]],
    constant long& batch [[buffer(16)]],
    constant long& steps [[buffer(17)]],
    constant long& heads [[buffer(18)]],
    constant long& depth [[buffer(19)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 thread_at [[thread_position_in_threadgroup]],
    uint3 threads [[threads_per_threadgroup]]) {
  using N = number<E>;
  threadgroup float shared[32768 / sizeof(float)];  // two turns of draw, gate by gate
  const uint width = uint(depth), gate = ROWS * width, turn = 4 * gate;
  const ulong across = ulong(heads) * width;
  const ulong first = ulong(group.y) * ROWS, head = group.x;
  const uint rows = uint(min(ulong(ROWS), ulong(batch) - first));
  const ulong size = ulong(batch) * across, past = size * ulong(steps) * KEPT, all = size * ulong(steps) * 4;
  threadgroup float* shared_low = shared + 2 * turn;
  device float* carried_low = carried + 3 * size;
  const uint square = width * width;
  device const float* matrix = turned + head * square;

  for (ulong column = thread_at.x; column < width; column += threads.x) {
    for (uint i = 0; i < 8 * ROWS; ++i) {
      put(N{0.0f}, shared, shared_low, i * width + column);
    }
    for (uint r = 0; r < rows; ++r) {
      const ulong at = (first + r) * across + head * width + column;
      put(N{grad_c_last[at]}, carried, carried_low, at);
      put(N{grad_n_last[at]}, carried, carried_low, size + at);
      put(N{grad_m_last[at]}, carried, carried_low, 2 * size + at);
      if (has_states && steps == 0) {
        dy_state[at] = W(grad_y_last[at]);
        dc_state[at] = W(grad_c_last[at]);
        dn_state[at] = W(grad_n_last[at]);
        dm_state[at] = W(grad_m_last[at]);
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  // With states there is a turn more than steps: the last gives the gradient of the first y.
  const ulong turns = ulong(steps) + (has_states && steps > 0 ? 1 : 0);
  for (ulong back = 0; back < turns; ++back) {
    const bool is_last = back == ulong(steps);
    const ulong t = is_last ? 0 : ulong(steps) - 1 - back;
    const uint now = (back & 1) != 0 ? turn : 0, next = turn - now;
    for (ulong column = thread_at.x; column < width; column += threads.x) {
      N sums[ROWS];
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) {
        sums[r] = {0.0f};
      }
      if (back > 0) {
#pragma clang loop unroll(disable)
        for (uint g = 0; g < 4; ++g) {
          N part[ROWS];
#pragma unroll
          for (uint r = 0; r < ROWS; ++r) {
            part[r] = {0.0f};
          }
          device const float* from = matrix + ulong(g) * heads * square + column;
          add_products<ROWS>(part, shared + now + g * gate, shared_low + now + g * gate, from, width);
#pragma unroll
          for (uint r = 0; r < ROWS; ++r) {
            sums[r] = sums[r] + finished(part[r], 0.0f, 0.0f);
          }
        }
      }
#pragma clang loop unroll(disable)
      for (uint r = 0; r < rows; ++r) {
        const ulong at = (first + r) * across + head * width + column;
        if (is_last) {
          dy_state[at] = W(nearest(finished(sums[r], 0.0f, 0.0f)));
        } else {
          const ulong step = (first + r) * ulong(steps) + t;
          const ulong place = (head * ulong(batch) + first + r) * ulong(steps) + t;
          device const float* from = history + place * (KEPT * width) + column;
          Kept<N> kept;
          kept.read(from, from + past, width);
          N c_before = {0.0f}, n_before = {0.0f};
          if (t > 0) {
            from -= KEPT * width;
            get(c_before, from, from + past, width);
            get(n_before, from, from + past, 2 * width);
          } else if (has_states) {
            c_before = {float(c_state[at])};
            n_before = {float(n_state[at])};
          }
          Cell<N> carry;
          get(carry.c, carried, carried_low, at);
          get(carry.n, carried, carried_low, size + at);
          get(carry.m, carried, carried_low, 2 * size + at);
          const float last = back == 0 ? grad_y_last[at] : 0.0f;
          const N dy = finished(sums[r], float(grad_y[step * across + head * width + column]), last);
          const RawGradients<N> raw = retreat(carry, kept, c_before, n_before, dy);
          put(carry.c, carried, carried_low, at);
          put(carry.n, carried, carried_low, size + at);
          put(carry.m, carried, carried_low, 2 * size + at);
          if (has_states && t == 0) {
            dc_state[at] = W(nearest(carry.c));
            dn_state[at] = W(nearest(carry.n));
            dm_state[at] = W(nearest(carry.m));
          }
          const N each[4] = {raw.i, raw.f, raw.z, raw.o};
#pragma unroll
          for (uint g = 0; g < 4; ++g) {
            put(each[g], shared, shared_low, next + g * gate + r * width + column);
            put(each[g], draws, draws + all, (g * size * ulong(steps)) + place * width + column);
            dx[(step * 4 + g) * across + head * width + column] = T(nearest(each[g]));
          }
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

constant constexpr uint EACH = 8;    // rows of dR that a thread has
constant constexpr uint STEPS = 32;  // that are summed before they go to a total, which loses nothing

inline void add_term(thread float& sum, float a, float b) { sum = fma(a, b, sum); }
inline void add_term(thread FloatFloat& sum, FloatFloat a, FloatFloat b) { sum = sum + a * b; }
inline FloatFloat pair_of(float a) { return {a, 0.0f}; }
inline FloatFloat pair_of(FloatFloat a) { return a; }
inline FloatFloat joined(FloatFloat total, FloatFloat part) {
  const FloatFloat next = two_sum(total.high, part.high);
  return {next.high, total.low + (next.low + part.low)};
}

// A threadgroup has 32 columns and EACH rows of a gate and head of dR, or its 32 columns of db behind the last rows.
template <typename T, typename W, uint E>
[[kernel]] void slstm_weights(
    device const float* draws [[buffer(0)]],
    device const float* history [[buffer(1)]],
    device const W* y_state [[buffer(2)]],
    device T* dR [[buffer(3)]],
    device T* db [[buffer(4)]],
    constant long& batch [[buffer(5)]],
    constant long& steps [[buffer(6)]],
    constant long& heads [[buffer(7)]],
    constant long& depth [[buffer(8)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  using N = number<E>;
  const uint width = uint(depth), begin = group.y * EACH;
  const ulong column = ulong(group.x) * 32 + lane;
  const ulong across = ulong(heads) * width, gate = group.z / uint(heads), head = group.z % uint(heads);
  const ulong size = ulong(batch) * across, past = size * ulong(steps) * KEPT, all = size * ulong(steps) * 4;
  const bool is_bias = begin >= width;
  if (column < width) {
    FloatFloat totals[EACH];
    uint rows[EACH];
#pragma unroll
    for (uint i = 0; i < EACH; ++i) {
      totals[i] = {0.0f, 0.0f};
      rows[i] = min(begin + i, width - 1);
    }
    for (ulong row = 0; row < ulong(batch); ++row) {
      for (ulong from = 0; from < ulong(steps); from += STEPS) {
        N parts[EACH];
#pragma unroll
        for (uint i = 0; i < EACH; ++i) {
          parts[i] = {0.0f};
        }
        const ulong place = (head * ulong(batch) + row) * ulong(steps) + from;
        device const float* draw = draws + gate * size * ulong(steps) + place * width + ulong(group.x) * 32;
        device const float* y = history + place * (KEPT * width);
        const uint count = uint(min(ulong(STEPS), ulong(steps) - from));
        if (is_bias) {
          for (uint t = 0; t < count; ++t) {
            N d;
            get(d, draw, draw + all, ulong(t * width) + lane);
            parts[0] = parts[0] + d;
          }
        } else {
          uint t = 0;
          if (from == 0) {
            if (has_states) {
              N d;
              get(d, draw, draw + all, lane);
#pragma unroll
              for (uint i = 0; i < EACH; ++i) {
                add_term(parts[i], N{float(y_state[row * across + head * width + rows[i]])}, d);
              }
            }
            t = 1;
          }
          for (; t < count; ++t) {
            device const float* before = y + (long(t) - 1) * (KEPT * width);
            N d;
            get(d, draw, draw + all, ulong(t * width) + lane);
#pragma unroll
            for (uint i = 0; i < EACH; ++i) {
              N value;
              get(value, before, before + past, rows[i]);
              add_term(parts[i], value, d);
            }
          }
        }
#pragma unroll
        for (uint i = 0; i < EACH; ++i) {
          totals[i] = joined(totals[i], pair_of(parts[i]));
        }
      }
    }
    if (is_bias) {
      db[gate * across + head * width + column] = T(finite_pair(totals[0].high, totals[0].low).high);
    } else {
#pragma unroll
      for (uint i = 0; i < EACH; ++i) {
        if (begin + i < width) {
          dR[(ulong(group.z) * width + begin + i) * width + column] = T(finite_pair(totals[i].high, totals[i].low).high);
        }
      }
    }
  }
}

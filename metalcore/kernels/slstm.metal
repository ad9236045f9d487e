// raw = x + y_before R + b for the gates i, f, z, o of each head, then for each element
//   kept = log sigmoid(raw_f) + m,  m' = max(raw_i, kept), or raw_i where n = 0
//   I = exp(raw_i - m'),  F = min(exp(kept - m'), 1)
//   c' = F c + I tanh(raw_z),  n' = F n + I,  y = sigmoid(raw_o) c' / n'                       (arXiv:2405.04517)
//
// A threadgroup has a head of ROWS sequences and walks through time, so that a number of R that was read serves all of
// them. R itself is read again in each step: a head's four matrices (64 KiB for a depth of 64) do not fit threadgroup
// memory, but do fit the cache behind it. A lane has columns, so R is read as it lies and y_before is the same number
// for all lanes. Columns are counted in 64 bits, which cannot overflow: so the engine knows that lanes lie side by side.
#include "slstm_cell.h"

constant bool has_states [[function_constant(0)]];
constant bool has_history [[function_constant(1)]];  // steps are kept for the gradient

// `rest` holds the low parts of c, n and m where numbers are pairs, `history` KEPT arrays of `depth` numbers for each
// head, sequence and step, high parts first.
template <typename T, typename W, uint ROWS, uint E>
[[kernel]] void slstm_forward(
    device const T* x [[buffer(0)]],
    device const T* R [[buffer(1)]],
    device const T* b [[buffer(2)]],
    device const W* y_state [[buffer(3)]],
    device const W* c_state [[buffer(4)]],
    device const W* n_state [[buffer(5)]],
    device const W* m_state [[buffer(6)]],
    device T* y [[buffer(7)]],
    device float* y_last [[buffer(8)]],
    device float* c_last [[buffer(9)]],
    device float* n_last [[buffer(10)]],
    device float* m_last [[buffer(11)]],
    device float* rest [[buffer(12)]],
    device float* history [[buffer(13)]],
    constant long& batch [[buffer(14)]],
    constant long& steps [[buffer(15)]],
    constant long& heads [[buffer(16)]],
    constant long& depth [[buffer(17)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 thread_at [[thread_position_in_threadgroup]],
    uint3 threads [[threads_per_threadgroup]]) {
  using N = number<E>;
  threadgroup float shared[16384 / sizeof(float)];  // two turns of y_before
  const uint width = uint(depth), turn = ROWS * width;
  const ulong across = ulong(heads) * width;  // numbers of a step
  const ulong first = ulong(group.y) * ROWS, head = group.x;
  const uint rows = uint(min(ulong(ROWS), ulong(batch) - first));
  const ulong size = ulong(batch) * across, past = size * ulong(steps) * KEPT;
  threadgroup float* shared_low = shared + 2 * turn;  // where numbers are pairs
  device float* c_low = rest;
  device float* n_low = rest + size;
  device float* m_low = rest + 2 * size;

  for (ulong column = thread_at.x; column < width; column += threads.x) {
    for (uint r = 0; r < ROWS; ++r) {
      N before = {0.0f};
      if (r < rows) {
        const ulong at = (first + r) * across + head * width + column;
        Cell<N> cell = {{0.0f}, {0.0f}, {0.0f}};
        if (has_states) {
          before = {float(y_state[at])};
          cell = {{float(c_state[at])}, {float(n_state[at])}, {float(m_state[at])}};
        }
        put(cell.c, c_last, c_low, at);
        put(cell.n, n_last, n_low, at);
        put(cell.m, m_last, m_low, at);
      }
      put(before, shared, shared_low, r * width + column);
      put(before, shared, shared_low, turn + r * width + column);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  const uint square = width * width;
  device const T* matrix = R + head * square;
  for (ulong t = 0; t < ulong(steps); ++t) {
    const uint now = (t & 1) != 0 ? turn : 0, next = turn - now;
    for (ulong column = thread_at.x; column < width; column += threads.x) {
      N raw[4 * ROWS];
#pragma clang loop unroll(disable)
      for (uint g = 0; g < 4; ++g) {
        N sums[ROWS];
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) {
          sums[r] = {0.0f};
        }
        device const T* from = matrix + ulong(g) * heads * square + column;
        add_products<ROWS>(sums, shared + now, shared_low + now, from, width);
        const float bias = float(b[g * across + head * width + column]);
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) {
          const ulong row = first + min(r, rows - 1);  // rows beyond the last are not stored
          const ulong at = ((row * ulong(steps) + t) * 4 + g) * across + head * width + column;
          raw[g * ROWS + r] = finished(sums[r], float(x[at]), bias);
        }
      }
#pragma clang loop unroll(disable)
      for (uint r = 0; r < rows; ++r) {  // much code: once is enough
        const ulong at = (first + r) * across + head * width + column;
        Cell<N> cell;
        get(cell.c, c_last, c_low, at);
        get(cell.n, n_last, n_low, at);
        get(cell.m, m_last, m_low, at);
        const Kept<N> kept = advance(cell, raw[r], raw[ROWS + r], raw[2 * ROWS + r], raw[3 * ROWS + r]);
        put(cell.c, c_last, c_low, at);
        put(cell.n, n_last, n_low, at);
        put(cell.m, m_last, m_low, at);
        const ulong step = (first + r) * ulong(steps) + t;
        y[step * across + head * width + column] = T(nearest(kept.y));
        put(kept.y, shared, shared_low, next + r * width + column);
        if (has_history) {
          const ulong place = (head * ulong(batch) + first + r) * ulong(steps) + t;
          device float* to = history + place * (KEPT * width) + column;
          kept.write(to, to + past, width);
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }

  const uint now = (steps & 1) != 0 ? turn : 0;
  for (ulong column = thread_at.x; column < width; column += threads.x) {
    for (uint r = 0; r < rows; ++r) {
      y_last[(first + r) * across + head * width + column] = shared[now + r * width + column];
    }
  }
}

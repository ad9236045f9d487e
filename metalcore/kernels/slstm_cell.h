// One element of sLSTM and one step of time, forward and backward, in numbers N (float or FloatFloat).
#pragma once
#include "slstm_number.h"

// What a step leaves for the gradient.
constant constexpr uint KEPT = 8;

template <typename N>
struct Cell {
  N c;
  N n;
  N m;
};

template <typename N>
struct Kept {
  N y;
  N c;
  N n;
  N input;
  N forget;
  N z;
  N output;
  N slope;  // of log sigmoid(raw_f)

  // Arrays of `depth` numbers each lie one after the other.
  template <typename P>
  void write(P high, P low, uint depth) const {
    put(y, high, low, 0);
    put(c, high, low, depth);
    put(n, high, low, 2 * depth);
    put(input, high, low, 3 * depth);
    put(forget, high, low, 4 * depth);
    put(z, high, low, 5 * depth);
    put(output, high, low, 6 * depth);
    put(slope, high, low, 7 * depth);
  }
  template <typename P>
  void read(P high, P low, uint depth) {
    get(y, high, low, 0);
    get(c, high, low, depth);
    get(n, high, low, 2 * depth);
    get(input, high, low, 3 * depth);
    get(forget, high, low, 4 * depth);
    get(z, high, low, 5 * depth);
    get(output, high, low, 6 * depth);
    get(slope, high, low, 7 * depth);
  }
};

// One of the two gates is 1: that whose exponent is the larger one, and so the new m. Where n is 0 nothing was before:
// there the input's is taken, and the other gate is at most 1.
template <typename N>
inline Kept<N> advance(thread Cell<N>& cell, N raw_i, N raw_f, N raw_z, N raw_o) {
  const Sigmoid<N> forget = sigmoid_parts(raw_f);
  const N kept = safe_sum(forget.log, cell.m), gap = safe_sum(raw_i, -kept);
  const bool is_first = nearest(cell.n) == 0.0f, is_ahead = nearest(gap) > 0.0f;
  const bool is_new = is_first || !(nearest(gap) <= 0.0f);  // also for NaN
  const N one = {1.0f}, z = bounded_tanh(raw_z);
  N small = small_exp(choose(is_ahead, gap, -gap));
  small = choose(is_first && nearest(gap) <= 0.0f, one, small);
  cell.c = fma(small, choose(is_new, cell.c, z), choose(is_new, z, cell.c));
  cell.n = fma(small, choose(is_new, cell.n, one), choose(is_new, one, cell.n));
  cell.m = choose(is_new, raw_i, kept);
  const N output = sigmoid_parts(raw_o).value;
  const N y = output * cell.c / cell.n;
  return {y, cell.c, cell.n, choose(is_new, one, small), choose(is_new, small, one), z, output, forget.rest};
}

template <typename N>
struct RawGradients {
  N i;
  N f;
  N z;
  N o;
};

// `to` has the gradients of c, n and m of a step, and gets those of the step before. Moving both exponents moves m and
// nothing else, so their two gradients sum up to that of m; that of the smaller gate is the one which is computed.
template <typename N>
inline RawGradients<N> retreat(thread Cell<N>& to, Kept<N> at, N c_before, N n_before, N dy) {
  const N one = {1.0f}, nothing = {0.0f}, each = dy / at.n;
  const N dc = fma(each, at.output, to.c);
  const N dn = fma(-each, at.y, to.n);
  const N to_input = at.input * fma(at.z, dc, dn);
  const N to_forget = at.forget * fma(c_before, dc, n_before * dn);
  // Where n was 0 the forget gate may have been cut at 1. Of two gates that are equal each has half of m.
  const bool is_first = nearest(n_before) == 0.0f, forget_is_one = nearest(at.forget) == 1.0f;
  const bool has_kept = !is_first && forget_is_one, are_equal = has_kept && nearest(at.input) == 1.0f;
  const N rest = to.m - to_input;
  N kept = choose(has_kept, rest, choose(is_first && forget_is_one, nothing, to_forget));
  kept = choose(are_equal, (rest + to_forget) * 0.5f, kept);
  const N input = choose(has_kept && !are_equal, to_input, to.m - kept);
  to = {at.forget * dc, at.forget * dn, kept};
  return {
      input, kept * at.slope, dc * at.input * (one - at.z * at.z),
      dy * at.y * (one - at.output)};
}

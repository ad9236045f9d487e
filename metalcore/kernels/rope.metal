// Rotary position embedding: pairs (a, b) of a head's elements turn by an angle that grows with the position.
//   ya = xa cos - xb sin,  yb = xb cos + xa sin                                              (arXiv:2104.09864)
// The gradient turns back. A pair is (i, i + rot / 2), or (2 i, 2 i + 1) where is_interleaved; elements from rot on are
// copied. Tables are rot wide (an angle for each element) or rot / 2 (for each pair).
#include "index.h"

constant bool is_interleaved [[function_constant(0)]];
constant bool is_spread [[function_constant(1)]];  // interleaved, and the tables are rot wide
constant bool has_positions [[function_constant(2)]];

// What holds for every row.
struct Turn {
  uint dim;
  uint rot;
  uint other;      // from an angle for a to that for b
  uint before;     // added to the sine for a: the gradient takes that of the other one, with its sign changed
  uint after;      // and for b
  float sign;
  uint lid;
  uint group_size;
};

// V: 2 where an interleaved pair is read and written at once.
template <uint V, typename T, typename W>
inline void turn(device const T* x, device const W* cosines, device const W* sines, device T* y, Turn by) {
  const uint half_rot = by.rot / 2;
  for (uint i = by.lid; i < half_rot; i += by.group_size) {
    const uint a = is_interleaved ? 2 * i : i;
    const uint b = is_interleaved ? 2 * i + 1 : i + half_rot;
    const uint at = is_spread ? 2 * i : i;
    const vec<T, 2> pair = V == 2 ? ((device const vec<T, 2>*)x)[i] : vec<T, 2>(x[a], x[b]);
    const float xa = float(pair.x);
    const float xb = float(pair.y);
    const T ya = T(fma(xa, float(cosines[at]), -by.sign * xb * float(sines[at + by.before])));
    const T yb = T(fma(xb, float(cosines[at + by.other]), by.sign * xa * float(sines[at + by.after])));
    if (V == 2) {
      ((device vec<T, 2>*)y)[i] = vec<T, 2>(ya, yb);
    } else {
      y[a] = ya;
      y[b] = yb;
    }
  }
  for (uint i = by.rot + by.lid; i < by.dim; i += by.group_size) {
    y[i] = x[i];
  }
}

// A threadgroup takes `each` tokens of one head, of q or of k. Heads are neighbours in the grid: they share the tables.
template <typename T, typename W, typename I, uint V>
[[kernel]] void rope(
    device const T* q [[buffer(0)]],
    device const T* k [[buffer(1)]],
    device const W* cosines [[buffer(2)]],
    device const W* sines [[buffer(3)]],
    device const I* positions [[buffer(4)]],
    device T* q_out [[buffer(5)]],
    device T* k_out [[buffer(6)]],
    device long* errors [[buffer(7)]],
    constant long& q_heads [[buffer(8)]],
    constant long& k_heads [[buffer(9)]],
    constant long& tokens [[buffer(10)]],
    constant long& dim [[buffer(11)]],
    constant long& rot [[buffer(12)]],
    constant long& width [[buffer(13)]],
    constant long& table_rows [[buffer(14)]],
    constant long& batches [[buffer(15)]],
    constant long& each [[buffer(16)]],
    constant long& is_backward [[buffer(17)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 groups [[threadgroups_per_grid]],
    uint3 thread_at [[thread_position_in_threadgroup]],
    uint3 threads [[threads_per_threadgroup]]) {
  const bool is_q = long(group.x) < q_heads;
  const long head = is_q ? group.z * q_heads + group.x : group.z * k_heads + (group.x - q_heads);
  const uint other = width < rot ? 0 : is_interleaved ? 1 : uint(rot) / 2;
  const uint before = is_backward != 0 ? other : 0;
  const float sign = is_backward != 0 ? -1.0f : 1.0f;
  const Turn by = {uint(dim), uint(rot), other, before, other - before, sign, thread_at.x, threads.x};
  const long batch = long(group.z) % batches;  // of the tables, or of the positions
  const long first = group.y * each;
  const long last = min(first + each, tokens);
  const long none = tokens * batches;
  long wrong = none;
  for (long token = first; token < last; token++) {
    const long place = batch * tokens + token;
    const long row = has_positions ? long(positions[place]) : place;
    const long at = (head * tokens + token) * dim;
    device const T* x = (is_q ? q : k) + at;
    device T* y = (is_q ? q_out : k_out) + at;
    if (!has_positions || (row >= 0 && row < table_rows)) {
      turn<V>(x, cosines + row * width, sines + row * width, y, by);
    } else {
      wrong = min(wrong, place);
      for (uint i = thread_at.x; i < uint(dim); i += threads.x) {
        y[i] = T(NAN);
      }
    }
  }
  if (has_positions && group.x == 0 && thread_at.x == 0) {
    report_index(errors + 3 * (group.z * groups.y + group.y), positions, uint(wrong), none);
  }
}

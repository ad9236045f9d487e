// Rotary position embedding: pairs (a, b) of a head's elements turn by an angle that grows with the position.
//   ya = xa cos - xb sin,  yb = xb cos + xa sin                                              (arXiv:2104.09864)
// The gradient turns back. A pair is (i, i + rot / 2), or (2 i, 2 i + 1) where is_interleaved; elements from rot on are
// copied. Tables are rot wide (is_full: an angle for each element) or rot / 2 (for each pair).
#include "index.h"

constant bool is_interleaved [[function_constant(0)]];
constant bool is_full [[function_constant(1)]];
constant bool has_positions [[function_constant(2)]];
constant bool is_backward [[function_constant(3)]];

template <typename T, typename W>
inline void turn(
    device const T* x, device const W* cosines, device const W* sines, device T* y, uint dim, uint rot, uint lid, uint group_size) {
  const uint half_rot = rot / 2;
  for (uint i = lid; i < half_rot; i += group_size) {
    const uint a = is_interleaved ? 2 * i : i;
    const uint b = is_interleaved ? 2 * i + 1 : i + half_rot;
    const float xa = float(x[a]);
    const float xb = float(x[b]);
    const float cos_a = float(cosines[is_full ? a : i]);
    const float sin_a = float(sines[is_full ? a : i]);
    const float cos_b = is_full ? float(cosines[b]) : cos_a;
    const float sin_b = is_full ? float(sines[b]) : sin_a;
    y[a] = T(is_backward ? fma(xa, cos_a, xb * sin_b) : fma(xa, cos_a, -(xb * sin_a)));
    y[b] = T(is_backward ? fma(xb, cos_b, -(xa * sin_a)) : fma(xb, cos_b, xa * sin_b));
  }
  for (uint i = rot + lid; i < dim; i += group_size) {
    y[i] = x[i];
  }
}

// A threadgroup takes `each` tokens of one head, of q or of k. Heads are neighbours in the grid: they share the tables.
template <typename T, typename W, typename I>
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
    constant long& table_rows [[buffer(13)]],
    constant long& batches [[buffer(14)]],
    constant long& each [[buffer(15)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 groups [[threadgroups_per_grid]],
    uint3 thread_at [[thread_position_in_threadgroup]],
    uint3 threads [[threads_per_threadgroup]]) {
  const bool is_q = long(group.x) < q_heads;
  const long head = is_q ? group.z * q_heads + group.x : group.z * k_heads + (group.x - q_heads);
  const long width = is_full ? rot : rot / 2;
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
      turn(x, cosines + row * width, sines + row * width, y, uint(dim), uint(rot), thread_at.x, threads.x);
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

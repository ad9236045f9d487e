// The singular value decomposition of linalg/svd.metal for matrices of any size: its steps as kernels, after and before
// those of svd_factor.metal. A threadgroup has a matrix, or a part of one; in it a simdgroup has a vector.
#include "linalg/svd_group.h"

constant bool has_vectors [[function_constant(0)]];
constant bool is_in_place [[function_constant(1)]];

constant constexpr uint SVD_BLOCK = 64;  // vectors in a block, at most

// The product of no turns. A thread an element.
template <typename T>
[[kernel]] void svd_no_turns(
    device T* turns [[buffer(0)]],
    constant long& count [[buffer(1)]],
    constant long& size [[buffer(2)]],
    uint id [[thread_position_in_grid]]) {
  if (id < count) {
    const uint pitch = pitch_of(size), place = id % (uint(size) * pitch);
    turns[id] = place / pitch == place % pitch ? 1.0f : 0.0f;
  }
}

// Which of the 2 b vectors of two blocks are pair i in a step: every one of the first block meets every one of the second
// in b steps, or, where `is_all`, all meet each other in 2 b - 1 steps.
inline uint2 svd_pair(uint i, uint step, uint b, bool is_all) {
  const uint last = 2 * b - 1;
  const uint p = !is_all ? i : i == 0 ? 0 : 1 + (step + i) % last;
  const uint q = is_all ? 1 + (step + last - i) % last : b + (i + step) % b;
  return uint2(min(p, q), max(p, q));
}

// One round of turns: the blocks of vectors meet in pairs, a pair a threadgroup, as in a tournament in which everybody
// plays everybody else. In the first round vectors of the same block meet too. `moved` has a slot for every pair of
// blocks: whether they turned when they last met. Where no other pair moved since, a pair need not meet again.
// `sweeps` is 1, or with two blocks as many as needed; `done` is how many were before.
template <typename T>
[[kernel]] void svd_round(
    device const T* vectors_before [[buffer(0)]],
    device const T* turns_before [[buffer(1)]],
    device const T* scales_before [[buffer(2)]],
    device const int* moved_before [[buffer(3)]],
    device T* vectors [[buffer(4)]],
    device T* turns [[buffer(5)]],
    device T* scales [[buffer(6)]],
    device int* moved [[buffer(7)]],
    constant long& count [[buffer(8)]],
    constant long& block [[buffer(9)]],
    constant long& blocks [[buffer(10)]],
    constant long& round [[buffer(11)]],
    constant long& sweeps [[buffer(12)]],
    constant long& done [[buffer(13)]],
    uint2 at [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]],
    uint groups [[simdgroups_per_threadgroup]]) {
  threadgroup float squares[2 * SVD_BLOCK], sizes[2 * SVD_BLOCK], inverses[2 * SVD_BLOCK];
  threadgroup uint numbers[2 * SVD_BLOCK];
  threadgroup uint seen[32];
  const uint n = count, pitch = pitch_of(n), b = block, pairs = blocks / 2, rounds = blocks - 1;
  const long matrix = at.y;
  const long base = matrix * n * pitch;
  const uint pair = at.x;
  const uint one = pair == 0 ? 0 : 1 + (round + pair) % rounds;
  const uint two = 1 + (round + blocks - 1 - pair) % rounds;
  const long slots = long(rounds) * pairs, own = matrix * slots + round * pairs + pair;
  // Has any pair of another round moved since, or this one when it last met?
  uint is_open = moved_before[own] != 0;
  for (uint i = lane; i < uint(slots); i += 32) {
    const bool is_other = i / pairs != uint(round);
    is_open |= is_other && moved_before[matrix * slots + i] != 0 ? 1 : 0;
  }
  is_open = simd_or(is_open);
  if (!is_in_place) {
    if (pair == 0 && group == 0) {
      for (uint i = lane; i < uint(slots); i += 32) {
        if (i / pairs != uint(round)) {
          moved[matrix * slots + i] = moved_before[matrix * slots + i];
        }
      }
    }
    for (uint i = group; i < 2 * b; i += groups) {
      const uint k = i < b ? one * b + i : two * b + i - b;
      if (k < n) {
        for (uint e = lane; e < pitch; e += 32) {
          vectors[base + long(k) * pitch + e] = vectors_before[base + long(k) * pitch + e];
          if (has_vectors) {
            turns[base + long(k) * pitch + e] = turns_before[base + long(k) * pitch + e];
          }
        }
      }
    }
    simdgroup_barrier(mem_flags::mem_device);
  }
  uint is_moved = 0;
  for (uint i = group; i < 2 * b; i += groups) {
    const uint k = i < b ? one * b + i : two * b + i - b;
    if (lane == 0) {
      numbers[i] = k;
      sizes[i] = k < n ? float(scales_before[matrix * n + k]) : 1.0f;
      inverses[i] = 1;
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  for (uint sweep = 0; sweep < uint(sweeps) && is_open != 0; sweep++) {
    const float tolerance = svd_tolerance(n, uint(done) + sweep);
    is_moved = 0;
    for (uint i = group; i < 2 * b; i += groups) {
      const uint k = numbers[i];
      if (k < n) {
        device T* vector = vectors + base + long(k) * pitch;
        float scale = sizes[i];
        float square = svd_dot(vector, vector, 0, pitch, lane);
        if (svd_is_odd(square)) {
          square = svd_rescale(vector, scale, 0, pitch, lane);
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
        if (lane == 0) {
          squares[i] = square;
          sizes[i] = scale;
          inverses[i] = 1 / scale;
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    const uint steps = round == 0 ? 2 * b - 1 : b;  // see svd_pair
    for (uint step = 0; step < steps; step++) {
      // A simdgroup has every groups-th pair, up to 32 at a time: first their dots, one after the other, then their turns,
      // each in a lane.
      for (uint first = group; first < b; first += groups * WIDTH) {
        const uint here = min(WIDTH, (b - first + groups - 1) / groups);
        float dot = 0;
        for (uint w = 0; w < here; w++) {
          const uint2 pair = svd_pair(first + w * groups, step, b, round == 0);
          const uint k = numbers[pair.x], l = numbers[pair.y];
          if (k < n && l < n) {
            const float found = svd_dot(vectors + base + long(k) * pitch, vectors + base + long(l) * pitch, 0, pitch, lane);
            dot = lane == w ? found : dot;
          }
        }
        const uint2 own_pair = svd_pair(first + min(lane, here - 1) * groups, step, b, round == 0);
        const uint x = own_pair.x, y = own_pair.y;
        const bool is_there = lane < here && numbers[x] < n && numbers[y] < n;
        const float square_x = is_there ? squares[x] : 1.0f, square_y = is_there ? squares[y] : 1.0f;
        const bool is_wanted = is_there && dot * dot > tolerance * (square_x * square_y);
        if (!simd_any(is_wanted)) {
          continue;
        }
        is_moved = 1;
        const Turn turn = svd_turn(dot, square_x, square_y, sizes[x], sizes[y], inverses[x], inverses[y], is_wanted);
        if (is_wanted) {
          squares[x] = turn.square_a;
          squares[y] = turn.square_b;
        }
        for (uint w = 0; w < here; w++) {
          if (simd_broadcast(is_wanted ? 1 : 0, ushort(w)) != 0) {
            const uint2 pair = svd_pair(first + w * groups, step, b, round == 0);
            const long k = base + long(numbers[pair.x]) * pitch, l = base + long(numbers[pair.y]) * pitch;
            const float less = simd_broadcast(turn.less, ushort(w)), both = simd_broadcast(turn.both, ushort(w));
            const float for_a = simd_broadcast(turn.for_a, ushort(w)), for_b = simd_broadcast(turn.for_b, ushort(w));
            svd_turn_vectors(vectors + k, vectors + l, less, for_a, for_b, pitch, lane);
            if (has_vectors) {
              svd_turn_vectors(turns + k, turns + l, less, both, both, pitch, lane);
            }
          }
        }
      }
      threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    }
    if (lane == 0) {
      seen[group] = is_moved;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = 0; i < groups; i++) {
      is_moved |= seen[i];
    }
    is_open = is_moved;
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (uint i = group; i < 2 * b; i += groups) {
    if (lane == 0 && numbers[i] < n) {
      scales[matrix * n + numbers[i]] = sizes[i];
    }
  }
  threadgroup_barrier(mem_flags::mem_device);  // all have read their slot
  if (group == 0 && lane == 0) {
    moved[own] = is_moved;
  }
}

// Singular values in descending order, their order, and the vectors of the side of `columns` elements. Vectors of the
// value 0 are found here: what is left of the axis that the others cover least. A threadgroup a matrix.
template <typename T>
[[kernel]] void svd_values(
    device const T* vectors [[buffer(0)]],
    device const T* scales [[buffer(1)]],
    device const T* whole [[buffer(2)]],
    device const int* moved [[buffer(3)]],
    device T* values [[buffer(4)]],
    device T* right [[buffer(5)]],
    device int* order [[buffer(6)]],
    device T* numbers [[buffer(7)]],
    device int* info [[buffer(8)]],
    constant long& count [[buffer(9)]],
    constant long& slots [[buffer(10)]],
    uint matrix [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]],
    uint groups [[simdgroups_per_threadgroup]],
    uint thread_index [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]]) {
  const uint n = count, pitch = pitch_of(n);
  vectors += long(matrix) * n * pitch;
  values += long(matrix) * n;
  right += long(matrix) * n * n;
  order += long(matrix) * n;
  device T* sizes = numbers + long(matrix) * 2 * n;
  device T* norms = sizes + n;  // later: how far each axis is covered
  for (uint k = group; k < n; k += groups) {
    const float norm = sqrt(svd_dot(vectors + long(k) * pitch, vectors + long(k) * pitch, 0, pitch, lane));
    if (lane == 0) {
      norms[k] = norm;
      sizes[k] = norm * scales[long(matrix) * n + k];
    }
  }
  threadgroup_barrier(mem_flags::mem_device);
  const float factor = whole[matrix];
  const bool is_finite = factor <= numeric_limits<float>::max();
  uint positive = 0;
  for (uint b = lane; b < n; b += 32) {
    positive += sizes[b] > 0 ? 1 : 0;
  }
  positive = simd_sum(positive);
  for (uint k = group; k < n; k += groups) {
    const float size = sizes[k];
    uint place = 0;
    for (uint b = lane; b < n; b += 32) {
      place += sizes[b] > size || (sizes[b] == size && b < k) ? 1 : 0;
    }
    place = simd_sum(place);
    if (lane == 0) {
      values[place] = is_finite ? size * factor : NAN;
      order[k] = place;
    }
    if (has_vectors) {
      const float norm = norms[k];
      for (uint i = lane; i < n; i += 32) {
        right[long(place) * n + i] = size > 0 ? vectors[long(k) * pitch + i] / norm : 0.0f;
      }
    }
  }
  uint open = 0;
  for (uint i = lane; i < uint(slots); i += 32) {
    open |= moved[long(matrix) * slots + i];
  }
  open = simd_or(open);
  if (thread_index == 0) {
    info[matrix] = n == 0 ? 0 : is_finite ? int(open) : SVD_NOT_FINITE;
  }
  if (!has_vectors || positive == n) {
    return;
  }
  threadgroup_barrier(mem_flags::mem_device);
  for (uint i = thread_index; i < n; i += threads) {
    float covered = 0;
    for (uint b = 0; b < positive; b++) {
      covered += right[long(b) * n + i] * right[long(b) * n + i];
    }
    norms[i] = -covered;
  }
  threadgroup_barrier(mem_flags::mem_device);
  for (uint k = positive; k < n; k++) {
    device T* fresh = right + long(k) * n;
    float best = -INFINITY;
    uint axis = 0;
    for (uint i = lane; i < n; i += 32) {
      axis = norms[i] > best ? i : axis;
      best = max(best, float(norms[i]));
    }
    axis = simd_min(best == simd_max(best) ? axis : ~0u);
    threadgroup_barrier(mem_flags::mem_device);
    for (uint i = thread_index; i < n; i += threads) {
      fresh[i] = i == axis ? 1.0f : 0.0f;
    }
    for (uint pass = 0; pass < 2; pass++) {
      threadgroup_barrier(mem_flags::mem_device);
      for (uint b = group; b < k; b += groups) {
        const float dot = svd_dot(right + long(b) * n, fresh, 0, n, lane);
        if (lane == 0) {
          sizes[b] = dot;
        }
      }
      threadgroup_barrier(mem_flags::mem_device);
      for (uint i = thread_index; i < n; i += threads) {
        float value = fresh[i];
        for (uint b = 0; b < k; b++) {
          value -= sizes[b] * right[long(b) * n + i];
        }
        fresh[i] = value;
      }
      threadgroup_barrier(mem_flags::mem_device);
      const float inverse = rsqrt(svd_dot(fresh, fresh, 0, n, lane));
      threadgroup_barrier(mem_flags::mem_device);
      for (uint i = thread_index; i < n; i += threads) {
        fresh[i] *= inverse;
      }
    }
    threadgroup_barrier(mem_flags::mem_device);
    for (uint i = thread_index; i < n; i += threads) {
      norms[i] -= fresh[i] * fresh[i];
    }
    threadgroup_barrier(mem_flags::mem_device);
  }
}

// The singular value decomposition of linalg/svd.metal for matrices of any size: its steps as kernels. A threadgroup has
// a matrix, or a part of one; in it a simdgroup has a vector. M has `columns` columns of `length` elements, which are
// rows in memory: lanes run along memory.
#include "linalg/svd_group.h"

constant bool has_vectors [[function_constant(0)]];
constant bool is_in_place [[function_constant(1)]];

constant constexpr uint SVD_BLOCK = 64;  // vectors in a block, at most

// M = Q R with pivots in rows and columns. Row places[k] of `x` becomes reflection k, from element k on; rows of M are
// swapped as it goes: k with pivots[k]. Row k of `r` becomes row k of R, with each element at its own column, to the
// scale r_scales[k]. `whole` is the factor that undoes the scaling of M; `moved` is set for the first round of turns.
template <typename T>
[[kernel]] void svd_factor(
    device const T* a [[buffer(0)]],
    device T* x [[buffer(1)]],
    device T* r [[buffer(2)]],
    device T* r_scales [[buffer(3)]],
    device T* factors [[buffer(4)]],
    device T* numbers [[buffer(5)]],
    device int* places [[buffer(6)]],
    device int* pivots [[buffer(7)]],
    device T* whole [[buffer(8)]],
    device int* moved [[buffer(9)]],
    constant long& columns [[buffer(10)]],
    constant long& length [[buffer(11)]],
    constant long& slots [[buffer(12)]],
    uint matrix [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]],
    uint groups [[simdgroups_per_threadgroup]],
    uint thread_index [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]]) {
  const uint n = columns, m = length;
  a += long(matrix) * n * m;
  x += long(matrix) * n * m;
  r += long(matrix) * n * n;
  r_scales += long(matrix) * n;
  factors += long(matrix) * n;
  places += long(matrix) * n;
  pivots += long(matrix) * n;
  device T* sizes = numbers + long(matrix) * 2 * n;  // of what is left of a column
  device T* scales = sizes + n;
  for (uint j = group; j < n; j += groups) {
    float largest = 0;
    bool is_finite = true;
    for (uint i = lane; i < m; i += 32) {
      const float size = fabs(a[long(j) * m + i]);
      is_finite = is_finite && size <= numeric_limits<float>::max();
      largest = max(largest, size);
    }
    largest = simd_all(is_finite) ? simd_max(largest) : INFINITY;
    if (lane == 0) {
      sizes[j] = largest;
    }
  }
  for (uint i = thread_index; i < uint(slots); i += threads) {
    moved[long(matrix) * slots + i] = 1;
  }
  threadgroup_barrier(mem_flags::mem_device);
  const float most = svd_largest(sizes, 0, n, lane);
  const bool is_finite = most <= numeric_limits<float>::max();
  const float power = is_finite ? svd_power(most) : 0.0f;
  if (thread_index == 0) {
    whole[matrix] = is_finite ? 1 / power : INFINITY;
  }
  threadgroup_barrier(mem_flags::mem_device);
  for (uint j = group; j < n; j += groups) {
    device T* column = x + long(j) * m;
    const float own = is_finite ? svd_power(sizes[j] * power) : 1.0f;
    float square = 0;
    for (uint i = lane; i < m; i += 32) {
      const float value = is_finite ? a[long(j) * m + i] * power * own : 0.0f;
      column[i] = value;
      square += value * value;
    }
    square = simd_sum(square);
    for (uint i = lane; i < n; i += 32) {
      r[long(j) * n + i] = 0;
    }
    simdgroup_barrier(mem_flags::mem_device);
    if (lane == 0) {
      places[j] = j;
      scales[j] = 1 / own;
      sizes[j] = sqrt(square) / own;
    }
  }
  threadgroup_barrier(mem_flags::mem_device);
  for (uint k = 0; k < n; k++) {
    const uint chosen = svd_place(sizes, k, n, lane);
    const int place = places[chosen];
    const float scale = scales[chosen];
    device T* v = x + long(place) * m;
    const uint row = svd_place(v, k, m, lane);
    const float head = v[row], first = v[k];
    float tail = 0;
    for (uint i = k + lane; i < m; i += 32) {
      tail += i == row ? 0.0f : v[i] * v[i];
    }
    tail = simd_sum(tail);
    const float root = sqrt(head * head + tail);
    const float norm = tail == 0 ? head : head < 0 ? root : -root;
    const float factor = tail == 0 ? 0.0f : 1 / (norm * (norm - head));
    threadgroup_barrier(mem_flags::mem_device);
    if (thread_index == 0) {
      places[chosen] = places[k];
      scales[chosen] = scales[k];
      sizes[chosen] = sizes[k];
      places[k] = place;
      v[row] = first;
      v[k] = head - norm;
      r[long(k) * n + place] = norm;
      r_scales[k] = scale;
      factors[k] = factor;
      pivots[k] = row;
    }
    threadgroup_barrier(mem_flags::mem_device);
    for (uint j = k + 1 + group; j < n; j += groups) {
      device T* column = x + long(places[j]) * m;
      const float above = column[row], below = column[k];
      simdgroup_barrier(mem_flags::mem_device);
      if (lane == 0) {
        column[row] = below;
        column[k] = above;
      }
      simdgroup_barrier(mem_flags::mem_device);
      const float dot = factor * svd_dot(v, column, k, m, lane);
      float rest = 0;
      for (uint i = k + lane; i < m; i += 32) {
        const float value = column[i] - v[i] * dot;
        column[i] = value;
        rest += i == k ? 0.0f : value * value;
      }
      rest = simd_sum(rest);
      simdgroup_barrier(mem_flags::mem_device);
      float own = scales[j];
      if (lane == 0) {
        r[long(k) * n + places[j]] = (above - v[k] * dot) * (own / scale);
      }
      if (svd_is_odd(rest)) {
        rest = svd_rescale(column, own, k + 1, m, lane);
      }
      simdgroup_barrier(mem_flags::mem_device);
      if (lane == 0) {
        scales[j] = own;
        sizes[j] = own * sqrt(rest);
      }
    }
    threadgroup_barrier(mem_flags::mem_device);
  }
}

// The product of no turns. A thread an element.
template <typename T>
[[kernel]] void svd_no_turns(
    device T* turns [[buffer(0)]],
    constant long& count [[buffer(1)]],
    constant long& size [[buffer(2)]],
    uint id [[thread_position_in_grid]]) {
  if (id < count) {
    const uint n = size, place = id % (n * n);
    turns[id] = place / n == place % n ? 1.0f : 0.0f;
  }
}

// One round of turns: the blocks of vectors meet in pairs, a pair a threadgroup, as in a tournament in which everybody
// plays everybody else. In the first round vectors of the same block meet too. `moved` has a slot for every pair of
// blocks: whether they turned when they last met. Where no other pair moved since, a pair need not meet again.
// `sweeps` is 1, or with two blocks as many as needed.
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
    uint2 at [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]],
    uint groups [[simdgroups_per_threadgroup]]) {
  threadgroup float squares[2 * SVD_BLOCK], sizes[2 * SVD_BLOCK], inverses[2 * SVD_BLOCK];
  threadgroup uint numbers[2 * SVD_BLOCK];
  threadgroup uint seen[32];
  const uint n = count, b = block, pairs = blocks / 2, rounds = blocks - 1;
  const long matrix = at.y;
  const long base = matrix * n * n;
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
        for (uint e = lane; e < n; e += 32) {
          vectors[base + long(k) * n + e] = vectors_before[base + long(k) * n + e];
          if (has_vectors) {
            turns[base + long(k) * n + e] = turns_before[base + long(k) * n + e];
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
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  const float tolerance = svd_tolerance(n);
  for (uint sweep = 0; sweep < uint(sweeps) && is_open != 0; sweep++) {
    is_moved = 0;
    for (uint i = group; i < 2 * b; i += groups) {
      const uint k = numbers[i];
      if (k < n) {
        device T* vector = vectors + base + long(k) * n;
        float scale = sizes[i];
        float square = svd_dot(vector, vector, 0, n, lane);
        if (svd_is_odd(square)) {
          square = svd_rescale(vector, scale, 0, n, lane);
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
    const uint steps = round == 0 ? 2 * b - 1 : b;
    for (uint step = 0; step < steps; step++) {
      for (uint i = group; i < b; i += groups) {
        uint p = i, q = b + (i + step) % b;
        if (round == 0) {
          p = i == 0 ? 0 : 1 + (step + i) % steps;
          q = 1 + (step + 2 * b - 1 - i) % steps;
        }
        const uint low = min(p, q), high = max(p, q);
        const uint k = numbers[low], l = numbers[high];
        if (k < n && l < n) {
          device T* first = vectors + base + long(k) * n;
          device T* second = vectors + base + long(l) * n;
          const float dot = svd_dot(first, second, 0, n, lane), square_a = squares[low], square_b = squares[high];
          if (dot * dot > tolerance * (square_a * square_b)) {
            const Turn turn = svd_turn(dot, square_a, square_b, sizes[low], sizes[high], inverses[low],
                                       inverses[high], true);
            svd_turn_vectors(first, second, turn.less, turn.for_a, turn.for_b, n, lane);
            if (has_vectors) {
              device T* other = turns + base;
              svd_turn_vectors(other + long(k) * n, other + long(l) * n, turn.less, turn.both, turn.both, n, lane);
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
            if (lane == 0) {
              squares[low] = turn.square_a;
              squares[high] = turn.square_b;
            }
            is_moved = 1;
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
  const uint n = count;
  vectors += long(matrix) * n * n;
  values += long(matrix) * n;
  right += long(matrix) * n * n;
  order += long(matrix) * n;
  device T* sizes = numbers + long(matrix) * 2 * n;
  device T* norms = sizes + n;  // later: how far each axis is covered
  for (uint k = group; k < n; k += groups) {
    const float norm = sqrt(svd_dot(vectors + long(k) * n, vectors + long(k) * n, 0, n, lane));
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
        right[long(place) * n + i] = size > 0 ? vectors[long(k) * n + i] / norm : 0.0f;
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

// W vectors are multiplied by Q at once, so that each reflection is read once for all of them.
template <typename T, uint W>
inline void svd_reflect(thread device T** u, device const T* x, device const T* factors, device const int* places,
                        device const int* pivots, uint n, uint m, uint lane) {
  for (uint k = n; k-- > 0;) {
    device const T* v = x + long(places[k]) * m;
    const uint row = pivots[k];
    float dots[W];
    for (uint w = 0; w < W; w++) {
      dots[w] = 0;
    }
    for (uint i = k + lane; i < m; i += 32) {
      const float value = v[i];
      for (uint w = 0; w < W; w++) {
        dots[w] += value * u[w][i];
      }
    }
    for (uint w = 0; w < W; w++) {
      dots[w] = factors[k] * simd_sum(dots[w]);
    }
    for (uint i = k + lane; i < m; i += 32) {
      const float value = v[i];
      for (uint w = 0; w < W; w++) {
        u[w][i] -= value * dots[w];
      }
    }
    simdgroup_barrier(mem_flags::mem_device);
    for (uint w = 0; w < W; w++) {
      const float first = u[w][k], second = u[w][row];
      simdgroup_barrier(mem_flags::mem_device);
      if (lane == 0) {
        u[w][k] = second;
        u[w][row] = first;
      }
    }
    simdgroup_barrier(mem_flags::mem_device);
  }
}

constant constexpr uint SVD_LEFTS = 4;  // vectors that a simdgroup has

// Vectors of the side of `length` elements: Q times the product of the turns; beyond `columns`, Q times an axis.
template <typename T>
[[kernel]] void svd_left(
    device const T* turns [[buffer(0)]],
    device const T* x [[buffer(1)]],
    device const T* factors [[buffer(2)]],
    device const int* places [[buffer(3)]],
    device const int* pivots [[buffer(4)]],
    device const int* order [[buffer(5)]],
    device T* left [[buffer(6)]],
    constant long& columns [[buffer(7)]],
    constant long& length [[buffer(8)]],
    constant long& lefts [[buffer(9)]],
    uint2 at [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]],
    uint groups [[simdgroups_per_threadgroup]]) {
  const uint n = columns, m = length, all = lefts;
  const long matrix = at.y;
  const uint begin = (at.x * groups + group) * SVD_LEFTS;
  device T* u[SVD_LEFTS];
  for (uint w = 0; w < SVD_LEFTS; w++) {
    const uint number = begin + w;
    if (number >= all) {
      break;
    }
    const uint place = number < n ? uint(order[matrix * n + number]) : number;
    device T* to = u[w] = left + (matrix * all + place) * m;
    if (number < n) {
      device const T* turned = turns + (matrix * n + number) * n;
      const float inverse = rsqrt(svd_dot(turned, turned, 0, n, lane));  // 1 but for what rounding did
      for (uint i = lane; i < n; i += 32) {
        to[i] = turned[i] * inverse;
      }
      for (uint i = n + lane; i < m; i += 32) {
        to[i] = 0;
      }
    } else {
      for (uint i = lane; i < m; i += 32) {
        to[i] = i == number ? 1.0f : 0.0f;
      }
    }
  }
  simdgroup_barrier(mem_flags::mem_device);
  x += matrix * n * m;
  factors += matrix * n;
  places += matrix * n;
  pivots += matrix * n;
  if (begin + SVD_LEFTS <= all) {
    svd_reflect<T, SVD_LEFTS>(u, x, factors, places, pivots, n, m, lane);
  } else {
    for (uint w = 0; begin + w < all; w++) {
      svd_reflect<T, 1>(u + w, x, factors, places, pivots, n, m, lane);
    }
  }
}

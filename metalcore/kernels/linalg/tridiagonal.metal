// A = Q T Q^T of symmetric matrices of any size, and the eigenvalues and eigenvectors of tridiagonal ones. One triangle
// of A is read: the lower one, or the upper one where `upper`. A is scaled by a power of two first.
//
// tridiagonalise: as EISPACK's tred2, from the last row up: row i becomes (0, ..., 0, e[i - 1], d[i]) by the reflection
// I - tau v v^T, and v takes the place of the row. The rank-2 update of a step waits for the next one: then one pass over
// the matrix updates it and multiplies it with the next v. T[i][i] = d[i], T[i + 1][i] = e[i].
//
// tridiagonal_eigh: implicit QL steps with Wilkinson's shift, as EISPACK's imtql2. The rotations of a step are found one
// after the other, then applied to the vectors. Threadgroups share the rows of V (a strip is 32 of them), and each finds
// the rotations itself: that is little work, and nobody waits.
#include "linalg/givens.h"
#include "linalg/rank_two.h"

constant constexpr uint STEPS = 30;  // QL steps for an eigenvalue, on average, before giving up; 2 are usual

// One threadgroup a matrix. `turned` is A as it is worked on, both triangles of it, then the reflections. scales is NaN for
// a matrix with NaN or infinity inside, which is taken as 0. `turned` has the pitch of pitch_of, and so has `room` with its
// 2 + simdgroups rows.
template <typename T>
[[kernel]] void tridiagonalise(
    device const T* a [[buffer(0)]],
    device T* turned [[buffer(1)]],
    device T* diagonal [[buffer(2)]],
    device T* off [[buffer(3)]],
    device T* taus [[buffer(4)]],
    device T* scales [[buffer(5)]],
    device T* room [[buffer(6)]],
    constant long& size [[buffer(7)]],
    constant long& upper [[buffer(8)]],
    uint matrix [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
  constexpr float least = numeric_limits<float>::min();
  threadgroup float partial[32];
  const Lane at = {lane, simdgroup, simdgroups};
  const uint n = size, pitch = pitch_of(n);
  const bool is_upper = upper != 0;
  const long begin = long(matrix) * n;
  a += begin * n;
  turned += begin * pitch;
  diagonal += begin;
  off += begin;
  taus += begin;
  room += long(matrix) * pitch * (2 + simdgroups);
  device T* w = room;               // of the update that waits, and of the next one
  device T* w_next = room + pitch;
  device T* parts = w_next + pitch;
  device T* own = parts + simdgroup * pitch;

  float largest = 0;
  for (uint i = simdgroup; i < n; i += simdgroups) {
    device const T* row = a + long(i) * n;
    for (uint j = is_upper ? i + lane : lane; j < (is_upper ? n : i + 1); j += WIDTH) {
      const float x = abs(row[j]);
      largest = is_number(x) ? max(largest, x) : INFINITY;
    }
  }
  largest = group_max(largest, partial, at);
  const bool is_finite = is_number(largest);
  const float scale = is_finite ? scale_for(largest) : 0.0f;
  if (lid == 0) {
    scales[matrix] = is_finite ? scale : NAN;
  }
  for (uint i = simdgroup; i < n; i += simdgroups) {
    device T* row = turned + long(i) * pitch;
    for (uint j = lane; j < pitch; j += WIDTH) {
      const bool is_stored = is_upper ? i <= j : i >= j;
      const float x = j >= n ? 0.0f : is_stored ? float(a[long(i) * n + j]) : float(a[long(j) * n + i]);
      row[j] = is_finite ? x * scale : 0.0f;
    }
  }
  for (uint j = lid; j < pitch; j += threads) {
    w[j] = 0;
    w_next[j] = 0;
  }
  threadgroup_barrier(mem_flags::mem_device);
  for (uint i = n - 1; i < n; i--) {  // ends after 0
    device T* v = turned + long(i) * pitch;
    device const T* v_last = i + 1 < n ? v + pitch : w;  // nothing waits for the first step
    const float x = v_last[i], y = w[i];
    threadgroup_barrier(mem_flags::mem_device);
    for (uint j = lid; j <= i; j += threads) {
      v[j] -= x * w[j] + y * v_last[j];
    }
    threadgroup_barrier(mem_flags::mem_device);
    if (i == 0) {
      if (lid == 0) {
        diagonal[0] = v[0];
        taus[0] = 0;
        off[n - 1] = 0;
      }
      break;
    }
    float most = 0;
    for (uint j = lid; j < i; j += threads) {
      most = max(most, abs(v[j]));
    }
    most = group_max(most, partial, at);
    const float inverse = most >= least ? 1 / most : 0.0f;
    float rest = 0;
    for (uint j = lid; j + 1 < i; j += threads) {
      const float x = v[j] * inverse;
      rest += x * x;
    }
    rest = group_sum(rest, partial, at);
    const float target = v[i - 1], alpha = target * inverse;
    const bool is_done = rest == 0;
    const float length = sqrt(alpha * alpha + rest), beta = alpha > 0 ? -length : length;
    const float tau = is_done ? 0.0f : (beta - alpha) / beta;
    const float factor = is_done ? 0.0f : inverse / (alpha - beta);
    threadgroup_barrier(mem_flags::mem_device);
    if (lid == 0) {
      off[i - 1] = is_done ? target : beta * most;
      diagonal[i] = v[i];
      taus[i] = tau;
    }
    for (uint j = lid; j < i; j += threads) {
      v[j] = j + 1 == i ? 1.0f : v[j] * factor;
    }
    for (uint j = lane; j < pitch; j += WIDTH) {
      own[j] = 0;
    }
    threadgroup_barrier(mem_flags::mem_device);

    // The matrix is symmetric: a sum of its rows is its product with v. Columns from i on are used no more.
    update_and_sum(turned, {v_last, w, w, v_last}, v, own, {0, i, 0, pitch_of(i), pitch}, at);
    threadgroup_barrier(mem_flags::mem_device);
    // w = tau A v - tau / 2 (tau A v . v) v
    float product = 0;
    for (uint j = lid; j < i; j += threads) {
      float sum = 0;
      for (uint g = 0; g < simdgroups; g++) {
        sum += parts[g * pitch + j];
      }
      w_next[j] = sum * tau;
      product += sum * tau * v[j];
    }
    product = group_sum(product, partial, at) * tau / 2;
    for (uint j = lid; j < i; j += threads) {
      w_next[j] -= product * v[j];
    }
    threadgroup_barrier(mem_flags::mem_device);
    device T* spare = w;
    w = w_next;
    w_next = spare;
  }
}

// groups.x threadgroups of one simdgroup share the strips of a matrix. `strips` holds Q^T, then V^T, as strips of 32
// columns that lie one after the other; `room` and `order` are 4 n numbers and n indices for each threadgroup.
template <typename T>
[[kernel]] void tridiagonal_eigh(
    device const T* turned [[buffer(0)]],
    device const T* diagonal [[buffer(1)]],
    device const T* off [[buffer(2)]],
    device const T* taus [[buffer(3)]],
    device const T* scales [[buffer(4)]],
    device T* strips [[buffer(5)]],
    device T* room [[buffer(6)]],
    device int* orders [[buffer(7)]],
    device T* values [[buffer(8)]],
    device T* vectors [[buffer(9)]],
    device int* info [[buffer(10)]],
    constant long& size [[buffer(11)]],
    constant long& with_vectors [[buffer(12)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint2 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr float eps = numeric_limits<float>::epsilon(), least = numeric_limits<float>::min();
  threadgroup float tile[WIDTH * (WIDTH + 1)];
  const uint n = size, strip_count = (n + WIDTH - 1) / WIDTH, share = group.x, shares = groups.x;
  const bool has_vectors = with_vectors != 0;
  const long matrix = group.y, begin = matrix * n;
  turned += begin * pitch_of(n);
  diagonal += begin;
  off += begin;
  taus += begin;
  strips += matrix * n * strip_count * WIDTH + lane;
  device T* d = room + (matrix * shares + share) * n * 4;
  device T* e = d + n;
  device T* c = e + n;
  device T* s = c + n;
  device int* order = orders + (matrix * shares + share) * n;

  if (has_vectors) {  // row k of Q is that of the identity times one reflection after the other
    for (uint strip = share; strip < strip_count; strip += shares) {
      device T* z = strips + long(strip) * n * WIDTH;
      float product = 0;  // of z with the next reflection: each pass makes it for the one after
      for (uint j = 0; j < n; j++) {
        const float value = j == strip * WIDTH + lane ? 1.0f : 0.0f;
        z[j * WIDTH] = value;
        product += j + 1 < n ? turned[long(n - 1) * pitch_of(n) + j] * value : 0.0f;
      }
      for (uint i = n - 1; i > 0; i--) {
        device const T* v = turned + long(i) * pitch_of(n);
        device const T* next = v - pitch_of(n);
        const float part = product * taus[i];
        product = 0;
        for (uint j = 0; j + 1 < i; j++) {
          const float value = z[j * WIDTH] - part * v[j];
          z[j * WIDTH] = value;
          product += next[j] * value;
        }
        z[(i - 1) * WIDTH] -= part * v[i - 1];
      }
    }
  }
  for (uint i = lane; i < n; i += WIDTH) {
    d[i] = diagonal[i];
    e[i] = off[i];
  }
  simdgroup_barrier(mem_flags::mem_device);

  uint low = 0;
  for (uint step = 0; step <= (STEPS + 1) * n && low + 1 < n; step++) {
    uint high = n - 1;
    for (uint base = low; base + 1 < n; base += WIDTH) {
      const uint j = base + lane;
      const bool is_small = j + 1 < n && abs(e[j]) <= eps * (abs(d[j]) + abs(d[j + 1])) + least;
      if (is_small) {
        e[j] = 0;
      }
      const uint found = simd_min(is_small ? j : n - 1);
      if (found < n - 1) {
        high = found;
        break;
      }
    }
    simdgroup_barrier(mem_flags::mem_device);
    if (high == low) {
      low++;
      continue;
    }
    const float ratio = (d[low + 1] - d[low]) / (2 * e[low]);
    const float root = sqrt(ratio * ratio + 1);
    float g = d[high] - d[low] + e[low] / (ratio + (ratio < 0 ? -root : root));
    float cosine = 1, sine = 1, p = 0, last = d[high];
    for (uint i = high - 1; i >= low && i < high; i--) {
      const float now = d[i], next = e[i];
      const float f = sine * next, b = cosine * next;
      float r;
      rotation(g, f, cosine, sine, r);
      const float base = last - p;
      const float turn = (now - base) * sine + 2 * cosine * b;
      p = sine * turn;
      g = cosine * turn - b;
      simdgroup_barrier(mem_flags::mem_device);
      if (lane == 0) {
        if (i + 1 < high) {
          e[i + 1] = r;
        }
        d[i + 1] = base + p;
        c[i] = cosine;
        s[i] = sine;
      }
      last = now;
    }
    if (lane == 0) {
      d[low] = last - p;
      e[low] = g;
    }
    simdgroup_barrier(mem_flags::mem_device);
    if (has_vectors) {
      for (uint strip = share; strip < strip_count; strip += shares) {
        device T* z = strips + long(strip) * n * WIDTH;
        float x = z[high * WIDTH];
        for (uint i = high - 1; i >= low && i < high; i--) {
          const float y = z[i * WIDTH];
          z[(i + 1) * WIDTH] = s[i] * y + c[i] * x;
          x = c[i] * y - s[i] * x;
        }
        z[low * WIDTH] = x;
      }
    }
  }

  const bool is_finite = is_number(scales[matrix]);
  const float undo = 1 / scales[matrix];
  for (uint i = lane; i < n; i += WIDTH) {
    const float x = d[i];
    uint rank = 0;
    for (uint j = 0; j < n; j++) {
      rank += d[j] < x || (d[j] == x && j < i) ? 1 : 0;
    }
    order[rank] = int(i);
    if (share == 0) {
      values[begin + rank] = x * undo;
    }
  }
  simdgroup_barrier(mem_flags::mem_device);
  if (has_vectors) {
    for (uint strip = share; strip < strip_count; strip += shares) {
      device const T* z = strips + long(strip) * n * WIDTH;
      device T* out = vectors + (begin + strip * WIDTH) * n;
      for (uint column = 0; column < n; column += WIDTH) {
        for (uint j = 0; j < WIDTH && column + j < n; j++) {
          tile[j * (WIDTH + 1) + lane] = z[order[column + j] * WIDTH];
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
        for (uint k = 0; k < WIDTH && strip * WIDTH + k < n; k++) {
          if (column + lane < n) {
            out[k * n + column + lane] = tile[lane * (WIDTH + 1) + k];
          }
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
      }
    }
  }
  if (share == 0 && lane == 0) {
    info[matrix] = is_finite ? int(n == 0 ? 0 : n - 1 - low) : int(n);
  }
}

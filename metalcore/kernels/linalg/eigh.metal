// A = V diag(w) V^T of symmetric matrices, eigenvalues ascending. One triangle of A is read: the lower one, or the upper
// one where `upper`. A thread has a matrix of n <= N: Householder reflections make it tridiagonal (Q, d and e: as
// EISPACK's tred2, from the last row up), then implicit QL steps with Wilkinson's shift turn Q into V.
// info is 0, or how many off-diagonal elements did not vanish; matrices with NaN or infinity inside count as such.
// Every thread works on its own block [begin, end] of the tridiagonal matrix; the simdgroup sweeps over the union.
#include "linalg/givens.h"
#include "linalg/lanes.h"

constant constexpr uint STEPS = 30;  // QL steps for an eigenvalue, on average, before giving up; 2 are usual

template <typename T, uint N>
[[kernel]] void eigh_lanes(
    device const T* a [[buffer(0)]],
    device T* values [[buffer(1)]],
    device T* vectors [[buffer(2)]],
    device int* info [[buffer(3)]],
    constant long& count [[buffer(4)]],
    constant long& size [[buffer(5)]],
    constant long& upper [[buffer(6)]],
    constant long& with_vectors [[buffer(7)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;
  constexpr float eps = numeric_limits<float>::epsilon(), least = numeric_limits<float>::min();
  threadgroup float tile[LANE_TILE];
  float z[N * PITCH];             // the matrix, then in its rows the reflections, then Q, then V
  float d[N], e[N], c[N], s[N];   // c and s: first w and tau of the reflections, then rotations, then the order
  const uint n = size;
  const bool is_upper = upper != 0, has_vectors = with_vectors != 0;
  const long first = long(group) * LANES;
  load_lanes(a, z, tile, n, n, PITCH, first, count, lane);

  float largest = 0;
  bool is_finite = true;
  for (uint i = 0; i < n; i++) {
    for (uint j = 0; j <= i; j++) {
      const float x = is_upper ? z[j * PITCH + i] : z[i * PITCH + j];
      z[i * PITCH + j] = x;
      largest = max(largest, abs(x));
      is_finite = is_finite && is_number(abs(x));
    }
  }
  const float scale = scale_for(is_finite ? largest : 1.0f);
  for (uint i = 0; i < n; i++) {
    for (uint j = 0; j <= i; j++) {
      z[i * PITCH + j] = is_finite ? z[i * PITCH + j] * scale : 0.0f;
    }
  }

  // Row i becomes (0, ..., 0, e[i - 1], d[i]) by I - tau v v^T; v takes the place of the row.
  for (uint i = n - 1; i >= 1 && i < n; i--) {
    thread float* v = z + i * PITCH;
    float most = 0;
    for (uint j = 0; j < i; j++) {
      most = max(most, abs(v[j]));
    }
    const float inverse = most >= least ? 1 / most : 0.0f;
    float rest = 0;
    for (uint j = 0; j + 1 < i; j++) {
      const float x = v[j] * inverse;
      rest += x * x;
    }
    const float alpha = v[i - 1] * inverse;
    const float length = sqrt(alpha * alpha + rest);
    const bool is_done = rest == 0;
    const float beta = alpha > 0 ? -length : length;
    const float tau = is_done ? 0.0f : (beta - alpha) / (beta == 0 ? 1.0f : beta);
    const float factor = is_done ? 0.0f : inverse / (alpha - beta);
    e[i - 1] = is_done ? v[i - 1] : beta * most;
    d[i] = z[i * PITCH + i];
    s[i] = tau;
    for (uint j = 0; j + 1 < i; j++) {
      v[j] *= factor;
    }
    v[i - 1] = 1;
    // A -= v w^T + w v^T with w = tau A v - tau / 2 (tau A v . v) v
    float product = 0;
    for (uint j = 0; j < i; j++) {
      float sum = 0;
      for (uint k = 0; k <= j; k++) {
        sum += z[j * PITCH + k] * v[k];
      }
      for (uint k = j + 1; k < i; k++) {
        sum += z[k * PITCH + j] * v[k];
      }
      c[j] = sum * tau;
      product += c[j] * v[j];
    }
    const float half_product = tau * product / 2;
    for (uint j = 0; j < i; j++) {
      c[j] -= half_product * v[j];
    }
    for (uint j = 0; j < i; j++) {
      const float x = v[j], y = c[j];
      for (uint k = 0; k <= j; k++) {
        z[j * PITCH + k] -= x * c[k] + y * v[k];
      }
    }
  }
  d[0] = z[0];

  if (has_vectors) {  // Q grows in the first rows and columns, over the reflections that are used up
    z[0] = 1;
    for (uint i = 1; i < n; i++) {
      thread const float* v = z + i * PITCH;
      for (uint j = 0; j < i; j++) {
        c[j] = 0;
      }
      for (uint k = 0; k < i; k++) {
        const float x = v[k] * s[i];
        for (uint j = 0; j < i; j++) {
          c[j] += x * z[k * PITCH + j];
        }
      }
      for (uint k = 0; k < i; k++) {
        const float x = v[k];
        for (uint j = 0; j < i; j++) {
          z[k * PITCH + j] -= x * c[j];
        }
      }
      for (uint j = 0; j < i; j++) {
        z[i * PITCH + j] = 0;
        z[j * PITCH + i] = 0;
      }
      z[i * PITCH + i] = 1;
    }
  }

  uint lowest = 0, failed = 0;
  for (uint step = 0; step <= STEPS * n && n > 1; step++) {
    uint begin = n, end = n - 1;
    float d_begin = 0, d_next = 0, e_begin = 1, d_end = d[n - 1];
    bool is_open = true;  // the end of the block is not found
    failed = 0;
    for (uint j = lowest; j + 1 < n; j++) {
      const float x = d[j], y = d[j + 1];
      const bool is_small = abs(e[j]) <= eps * (abs(x) + abs(y)) + least;
      const float off = is_small ? 0.0f : e[j];
      e[j] = off;
      failed += is_small ? 0 : 1;
      const bool is_first = begin == n && !is_small;
      const bool is_last = begin != n && is_small && is_open;
      begin = is_first ? j : begin;
      d_begin = is_first ? x : d_begin;
      d_next = is_first ? y : d_next;
      e_begin = is_first ? off : e_begin;
      end = is_last ? j : end;
      d_end = is_last ? x : d_end;
      is_open = is_open && !is_last;
    }
    if (simd_all(begin == n)) {
      break;
    }
    lowest = simd_min(begin);
    const uint highest = simd_max(begin == n ? 0 : end);
    const float ratio = (d_next - d_begin) / (2 * e_begin);
    const float root = sqrt(ratio * ratio + 1);
    float g = d_end - d_begin + e_begin / (ratio + (ratio < 0 ? -root : root));
    float cosine = 1, sine = 1, p = 0;
    for (uint i = highest - 1; i >= lowest && i < highest; i--) {
      const bool has_begun = i < end, is_active = has_begun && i >= begin, is_last = i == begin;
      const float f = sine * e[i], b = cosine * e[i];
      float cosine_now, sine_now, r;
      rotation(g, f, cosine_now, sine_now, r);
      e[i + 1] = is_active && i + 1 < end ? r : e[i + 1];
      const float base = d[i + 1] - p;
      const float turn = (d[i] - base) * sine_now + 2 * cosine_now * b;
      const float p_now = sine_now * turn, g_now = cosine_now * turn - b;
      d[i + 1] = is_active ? base + p_now : d[i + 1];
      d[i] = is_last ? d[i] - p_now : d[i];
      e[i] = is_last ? g_now : e[i];
      c[i] = is_active ? cosine_now : 1.0f;
      s[i] = is_active ? sine_now : 0.0f;
      g = has_begun ? g_now : g;
      p = has_begun ? p_now : p;
      cosine = has_begun ? cosine_now : cosine;
      sine = has_begun ? sine_now : sine;
    }
    if (has_vectors) {
      for (uint k = 0; k < n; k++) {
        thread float* row = z + k * PITCH;
        float last = row[highest];
        for (uint i = highest - 1; i >= lowest && i < highest; i--) {
          const float x = row[i];
          row[i + 1] = s[i] * x + c[i] * last;
          last = c[i] * x - s[i] * last;
        }
        row[lowest] = last;
      }
    }
  }

  // The j-th smallest is number order[j]; what is taken becomes infinite.
  uint order[N];
  const float undo = 1 / scale;
  for (uint j = 0; j < n; j++) {
    uint best = 0;
    float value = d[0];
    for (uint i = 1; i < n; i++) {
      const bool is_less = d[i] < value;
      best = is_less ? i : best;
      value = is_less ? d[i] : value;
    }
    for (uint i = 0; i < n; i++) {
      d[i] = i == best ? INFINITY : d[i];
    }
    order[j] = best;
    e[j] = is_finite ? value * undo : NAN;
  }
  store_lanes(e, values, tile, 1, n, n, first, count, lane);
  if (has_vectors) {
    for (uint k = 0; k < n; k++) {
      for (uint j = 0; j < n; j++) {
        e[j] = z[k * PITCH + order[j]];
      }
      for (uint j = 0; j < n; j++) {
        z[k * PITCH + j] = e[j];
      }
    }
    store_lanes(z, vectors, tile, n, n, PITCH, first, count, lane);
  }
  if (first + lane < count) {
    info[first + lane] = is_finite ? int(failed) : int(n);
  }
}

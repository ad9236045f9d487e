// The steps of the singular value decomposition of a small matrix in a thread: M of `length` x `columns` numbers, with
// columns <= length <= N. An array holds a vector in every row of PITCH elements.
#pragma once
#include "linalg/lanes.h"
#include "linalg/svd.h"

// Brings every column to a norm near 1, by a power of two, and the whole to a largest element of 1 first: the factor that
// undoes this is returned. Rows are put in the order of their largest elements: row i is the matrix's row order[i].
// A matrix with a NaN or an infinity becomes zero.
template <typename T, uint PITCH>
inline float scale_lanes(device const T* from, thread float* x, thread float* scales, thread float* sizes,
                         thread uint* order, uint columns, uint length, thread bool& is_finite) {
  float most = 0;
  is_finite = true;
  for (uint j = 0; j < columns; j++) {
    float largest = 0;
    for (uint i = 0; i < length; i++) {
      const float size = fabs(x[j * PITCH + i]);
      is_finite = is_finite && size <= numeric_limits<float>::max();
      largest = max(largest, size);
    }
    scales[j] = largest;
    most = max(most, largest);
  }
  const float whole = is_finite ? svd_power(most) : 0.0f;
  for (uint j = 0; j < columns; j++) {
    scales[j] = svd_power(scales[j] * whole);
  }
  for (uint i = 0; i < length; i++) {
    float largest = 0;
    for (uint j = 0; j < columns; j++) {
      largest = max(largest, fabs(x[j * PITCH + i]) * whole * scales[j]);
    }
    sizes[i] = largest;
    order[i] = 0;
  }
  for (uint i = 0; i < length; i++) {
    uint place = 0;
    for (uint b = 0; b < length; b++) {
      place += sizes[b] > sizes[i] || (sizes[b] == sizes[i] && b < i) ? 1 : 0;
    }
    for (uint b = 0; b < length; b++) {
      order[b] = place == b ? i : order[b];
    }
  }
  for (uint j = 0; j < columns; j++) {
    for (uint i = 0; i < length; i++) {
      const float value = float(from[j * length + order[i]]);
      x[j * PITCH + i] = is_finite ? value * whole * scales[j] : 0.0f;
    }
    scales[j] = 1 / scales[j];
  }
  return is_finite ? 1 / whole : 1.0f;
}

// Another scale for a column whose square is out of range; its new square is returned.
template <uint PITCH>
inline float rescale_lanes(thread float* column, thread float& scale, uint begin, uint length) {
  float largest = 0;
  for (uint i = begin; i < length; i++) {
    largest = max(largest, fabs(column[i]));
  }
  const float power = svd_rescaling(largest, scale);
  float square = 0;
  for (uint i = begin; i < length; i++) {
    const float value = column[i] * power;
    column[i] = value;
    square += value * value;
  }
  return square;
}

// M = Q R by Householder reflections, each with the largest column left, so that rows as well as columns of very
// different size keep their digits (Cox and Higham, BIT 38, 1998: rows are in the order of their size). Lanes have other
// pivots: columns are swapped by selection. Reflection k is in row k of `x`, from element k on; row k of R is in row k of
// `r`, to the scale of the pivot; column j of the result is the matrix's column places[j].
template <uint PITCH>
inline void factor_lanes(thread float* x, thread float* scales, thread float* r, thread float* r_scales,
                         thread float* factors, thread float* sizes, thread float* marks, thread uint* places,
                         uint columns, uint length) {
  for (uint j = 0; j < columns; j++) {
    float square = 0;
    for (uint i = 0; i < length; i++) {
      square += x[j * PITCH + i] * x[j * PITCH + i];
    }
    sizes[j] = scales[j] * sqrt(square);
    places[j] = j;
  }
  for (uint k = 0; k < columns; k++) {
    thread float* v = x + k * PITCH;
    float best = sizes[k], scale = scales[k];
    uint chosen = k, place = places[k];
    for (uint j = k + 1; j < columns; j++) {
      const bool is_best = sizes[j] > best;
      best = is_best ? sizes[j] : best;
      scale = is_best ? scales[j] : scale;
      place = is_best ? places[j] : place;
      chosen = is_best ? j : chosen;
    }
    for (uint j = k + 1; j < columns; j++) {
      const bool is_chosen = chosen == j;
      marks[j] = is_chosen ? 1.0f : 0.0f;  // a compiler that sees j == chosen here would index by it
      scales[j] = is_chosen ? scales[k] : scales[j];
      places[j] = is_chosen ? places[k] : places[j];
    }
    scales[k] = r_scales[k] = scale;
    places[k] = place;
    for (uint i = 0; i < k; i++) {
      const float before = r[i * PITCH + k];
      float value = before;
      for (uint j = k + 1; j < columns; j++) {
        const bool is_chosen = marks[j] != 0;
        value = is_chosen ? r[i * PITCH + j] : value;
        r[i * PITCH + j] = is_chosen ? before : r[i * PITCH + j];
      }
      r[i * PITCH + k] = value;
      r[k * PITCH + i] = 0;
    }
    float tail = 0, wide = 0;
    for (uint i = k; i < length; i++) {
      const float before = v[i];
      float value = before;
      for (uint j = k + 1; j < columns; j++) {
        const bool is_chosen = marks[j] != 0;
        value = is_chosen ? x[j * PITCH + i] : value;
        x[j * PITCH + i] = is_chosen ? before : x[j * PITCH + i];
      }
      v[i] = value;
      tail += i > k ? value * value : 0.0f;
      wide = max(wide, i > k ? fabs(value) : 0.0f);
    }
    const float head = v[k], root = sqrt(head * head + tail);
    // Elements whose squares vanish beside the head's may be large in their rows: they are reflected too.
    const float norm = wide == 0 ? head : head < 0 ? root : -root;
    const float factor = wide == 0 ? 0.0f : 1 / (norm * (norm - head)), inverse = 1 / scale;
    v[k] = head - norm;
    r[k * PITCH + k] = norm;
    factors[k] = factor;
    for (uint j = k + 1; j < columns; j++) {
      thread float* column = x + j * PITCH;
      float dot = 0;
      for (uint i = k; i < length; i++) {
        dot += v[i] * column[i];
      }
      dot *= factor;
      r[k * PITCH + j] = (column[k] - v[k] * dot) * (scales[j] * inverse);
      float rest = 0;
      for (uint i = k + 1; i < length; i++) {
        const float value = column[i] - v[i] * dot;
        column[i] = value;
        rest += value * value;
      }
      if (simd_any(svd_is_odd(rest))) {
        rest = rescale_lanes<PITCH>(column, scales[j], k + 1, length);
      }
      sizes[j] = scales[j] * sqrt(rest);
    }
  }
}

// Turns the vectors in the rows of `c` until they are orthogonal, and those of `turns` with them. Returns how many sweeps
// were not enough: 0, or 1.
template <uint PITCH>
inline int orthogonalize_lanes(thread float* c, thread float* scales, thread float* squares, thread float* inverses,
                               thread float* turns, bool has_turns, uint count) {
  bool is_moved = true;
  for (int sweep = 0; sweep < SVD_SWEEPS && simd_any(is_moved); sweep++) {
    const float tolerance = svd_tolerance(count, sweep);
    is_moved = false;
    for (uint k = 0; k < count; k++) {
      float square = 0;
      for (uint i = 0; i < count; i++) {
        square += c[k * PITCH + i] * c[k * PITCH + i];
      }
      if (simd_any(svd_is_odd(square))) {
        square = rescale_lanes<PITCH>(c + k * PITCH, scales[k], 0, count);
      }
      squares[k] = square;
      inverses[k] = 1 / scales[k];
    }
    // The order of (0, 1), (0, 2) ... (1, 2), (1, 3) ...; two rows of it at a time find each second vector near.
    for (uint begin = 0; begin + 1 < count; begin += 2) {
      for (uint b = begin + 1; b < count; b++) {
        thread float* second = c + b * PITCH;
        for (uint a = begin; a < min(begin + 2, b); a++) {
          thread float* first = c + a * PITCH;
          float dot = 0;
          for (uint i = 0; i < count; i++) {
            dot += first[i] * second[i];
          }
          const bool is_wanted = dot * dot > tolerance * (squares[a] * squares[b]);
          if (simd_any(is_wanted)) {
            is_moved = is_moved || is_wanted;
            const Turn turn = svd_turn(dot, squares[a], squares[b], scales[a], scales[b], inverses[a], inverses[b],
                                       is_wanted);
            squares[a] = turn.square_a;
            squares[b] = turn.square_b;
            for (uint i = 0; i < count; i++) {
              svd_apply(first[i], second[i], turn.less, turn.for_a, turn.for_b);
            }
            if (has_turns) {
              for (uint i = 0; i < count; i++) {
                svd_apply(turns[a * PITCH + i], turns[b * PITCH + i], turn.less, turn.both, turn.both);
              }
            }
          }
        }
      }
    }
  }
  return is_moved ? 1 : 0;
}

// Row k of `c`, which is zero where is_zero, becomes a unit vector that is orthogonal to all other rows: what is left of
// the axis that they cover least.
template <uint PITCH>
inline void complete_lanes(thread float* c, thread float* fresh, uint k, bool is_zero, uint count) {
  float least = 2;
  uint axis = 0;
  for (uint i = 0; i < count; i++) {
    float covered = 0;
    for (uint b = 0; b < count; b++) {
      covered += c[b * PITCH + i] * c[b * PITCH + i];
    }
    axis = covered < least ? i : axis;
    least = min(covered, least);
  }
  for (uint i = 0; i < count; i++) {
    fresh[i] = i == axis ? 1.0f : 0.0f;
  }
  for (uint pass = 0; pass < 2; pass++) {
    for (uint b = 0; b < count; b++) {
      float dot = 0;
      for (uint i = 0; i < count; i++) {
        dot += c[b * PITCH + i] * fresh[i];
      }
      dot = b == k ? 0.0f : dot;
      for (uint i = 0; i < count; i++) {
        fresh[i] -= dot * c[b * PITCH + i];
      }
    }
    float square = 0;
    for (uint i = 0; i < count; i++) {
      square += fresh[i] * fresh[i];
    }
    const float inverse = rsqrt(square);
    for (uint i = 0; i < count; i++) {
      fresh[i] *= inverse;
    }
  }
  for (uint i = 0; i < count; i++) {
    c[k * PITCH + i] = is_zero ? fresh[i] : c[k * PITCH + i];
  }
}

// u = Q u.
template <uint PITCH>
inline void reflect_lanes(thread float* u, thread const float* reflectors, thread const float* factors, uint columns,
                          uint length) {
  for (uint k = columns; k-- > 0;) {
    thread const float* v = reflectors + k * PITCH;
    float dot = 0;
    for (uint i = k; i < length; i++) {
      dot += v[i] * u[i];
    }
    dot *= factors[k];
    for (uint i = k; i < length; i++) {
      u[i] -= v[i] * dot;
    }
  }
}

// Elements of a vector go to their places.
template <typename T>
inline void scatter_lanes(thread const float* from, device T* to, thread const uint* places, uint length) {
  for (uint i = 0; i < length; i++) {
    to[places[i]] = T(from[i]);
  }
}

// The singular value decomposition of what linalg/bidiagonal.metal gives: implicit QR steps, as LAPACK's bdsqr, from the
// larger end of a block of B to the smaller one, with the smallest singular value of the last two rows as shift. The
// rotations of a step are found one after the other, then applied to the vectors. Threadgroups share the rows of U and V
// (a strip is 32 of them), and each finds the rotations itself: that is little work, and nobody waits.
#include "linalg/givens.h"
#include "linalg/rank_two.h"

constant constexpr uint STEPS = 30;  // QR steps for a singular value, on average, before giving up; 2 are usual
constant constexpr int NOT_FINITE = -4;

// A strip of the identity's rows times all reflections, one after the other; number i has the elements from i + first on.
template <typename T>
inline void reflect(device T* z, device const T* rows, device const T* taus, uint strip, uint first, uint n, uint lane) {
  float product = 0;
  for (uint j = 0; j < n; j++) {
    const float value = j == strip * WIDTH + lane ? 1.0f : 0.0f;
    z[j * WIDTH] = value;
    product += j >= first ? rows[j] * value : 0.0f;
  }
  for (uint i = 0; i + first < n; i++) {
    device const T* now = rows + long(i) * pitch_of(n);
    device const T* next = now + pitch_of(n);
    const float part = product * taus[i];
    z[(i + first) * WIDTH] -= part * now[i + first];
    product = 0;
    for (uint j = i + first + 1; j < n; j++) {
      const float value = z[j * WIDTH] - part * now[j];
      z[j * WIDTH] = value;
      product += next[j] * value;
    }
  }
}

// The vectors of a strip from `from` on, `step` apart, are turned into each other.
template <typename T>
inline void turn(device T* z, device const T* cosines, device const T* sines, uint from, int step, uint count) {
  device T* to = z + from * WIDTH;
  const int pitch = step * int(WIDTH);
  float x = *to;
  for (uint i = 0; i < count; i++) {
    const float y = to[pitch], c = cosines[i], s = sines[i];
    *to = c * x + s * y;
    x = c * y - s * x;
    to += pitch;
  }
  *to = x;
}

// The smaller singular value of [f g; 0 h], all of them not negative.
inline float smaller_of_two(float f, float g, float h) {
  const float low = min(f, h), high = max(f, h);
  if (low == 0) {
    return 0;
  }
  const float sum = 1 + low / high, difference = (high - low) / high;
  if (g < high) {
    const float square = (g / high) * (g / high);
    return low * (2 / (sqrt(sum * sum + square) + sqrt(difference * difference + square)));
  }
  const float ratio = high / g, one = sum * ratio, two = difference * ratio;
  return 2 * (low * (1 / (sqrt(1 + one * one) + sqrt(1 + two * two)))) * ratio;
}

// groups.x threadgroups of one simdgroup share the strips of a matrix. Strips hold vectors as rows, 32 elements of each;
// `room` is 6 n numbers for each threadgroup. orders has the vectors' places, the largest value's first; signs those of B.
template <typename T>
[[kernel]] void bidiagonal_svd(
    device const T* work [[buffer(0)]],
    device const T* lefts [[buffer(1)]],
    device const T* diagonal [[buffer(2)]],
    device const T* off [[buffer(3)]],
    device const T* left_taus [[buffer(4)]],
    device const T* right_taus [[buffer(5)]],
    device const T* scales [[buffer(6)]],
    device T* left_strips [[buffer(7)]],
    device T* right_strips [[buffer(8)]],
    device T* room [[buffer(9)]],
    device T* values [[buffer(10)]],
    device T* signs [[buffer(11)]],
    device int* orders [[buffer(12)]],
    device int* info [[buffer(13)]],
    constant long& size [[buffer(14)]],
    constant long& with_vectors [[buffer(15)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint2 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr float eps = numeric_limits<float>::epsilon();
  const uint n = size, strip_count = (n + WIDTH - 1) / WIDTH, share = group.x, shares = groups.x;
  const uint strips = with_vectors != 0 ? strip_count : 0;
  const long matrix = group.y, begin = matrix * n;
  left_strips += matrix * n * strip_count * WIDTH + lane;
  right_strips += matrix * n * strip_count * WIDTH + lane;
  device T* d = room + (matrix * shares + share) * n * 6;
  device T* e = d + n;
  device T* right_cosines = e + n;
  device T* right_sines = right_cosines + n;
  device T* left_cosines = right_sines + n;
  device T* left_sines = left_cosines + n;

  for (uint strip = share; strip < strips; strip += shares) {
    const long place = long(strip) * n * WIDTH;
    reflect(left_strips + place, lefts + begin * pitch_of(n), left_taus + begin, strip, 0, n, lane);
    reflect(right_strips + place, work + begin * pitch_of(n), right_taus + begin, strip, 1, n, lane);
  }
  float most = 0;
  for (uint i = lane; i < n; i += WIDTH) {
    d[i] = diagonal[begin + i];
    e[i] = off[begin + i];
    most = max(most, abs(diagonal[begin + i]) + abs(off[begin + i]));
  }
  simdgroup_barrier(mem_flags::mem_device);
  const float cut = 2 * eps * simd_max(most);  // what roundings of the largest value make of an element that should be 0

  uint high = n == 0 ? 0 : n - 1, last_low = n, last_high = 0;
  bool is_up = false;
  for (uint step = 0; step <= (STEPS + 1) * n && high > 0; step++) {
    uint low = 0;
    for (uint base = high; base > 0 && low == 0; base -= min(base, WIDTH)) {
      const bool is_small = lane < base && abs(e[base - 1 - min(lane, base - 1)]) <= cut;
      low = simd_max(is_small ? base - lane : 0);
    }
    if (low == high) {
      high--;
      continue;
    }
    if (low > last_high || high < last_low) {
      is_up = abs(d[high]) > abs(d[low]);
    }
    last_low = low;
    last_high = high;
    float smallest = INFINITY;
    for (uint i = low + lane; i <= high; i += WIDTH) {
      smallest = min(smallest, abs(d[i]));
    }
    smallest = simd_min(smallest);

    // Upwards is downwards in the matrix whose rows and columns are in reverse order and exchanged.
    const uint count = high - low;
    const int pace = is_up ? -1 : 1;
    device T* along = d + (is_up ? high : low);
    device T* beside = e + (is_up ? high - 1 : low);
    const int last = int(count) * pace;
    float now = along[0], next_to = beside[0];
    float shift = smaller_of_two(abs(along[last - pace]), abs(beside[last - pace]), abs(along[last]));
    const float part = shift / abs(now);
    shift = smallest <= cut || part * part < eps ? 0.0f : shift;
    float f = shift == 0 ? now : (abs(now) - shift) * ((now < 0 ? -1.0f : 1.0f) + shift / now), g = next_to;
    for (uint i = 0; i < count; i++) {
      const int place = int(i) * pace;
      const float next = along[place + pace], after = i + 1 < count ? beside[place + pace] : 0.0f;
      float c, s, r, cosine, sine, length;
      rotation(f, g, c, s, r);
      f = c * now + s * next_to;
      const float rest = c * next_to - s * now;
      rotation(f, s * next, cosine, sine, length);
      f = cosine * rest + sine * (c * next);
      now = cosine * (c * next) - sine * rest;
      g = sine * after;
      next_to = cosine * after;
      simdgroup_barrier(mem_flags::mem_device);
      if (lane == 0) {
        if (i > 0) {
          beside[place - pace] = r;
        }
        along[place] = length;
        right_cosines[i] = c;
        right_sines[i] = s;
        left_cosines[i] = cosine;
        left_sines[i] = sine;
      }
    }
    if (lane == 0) {
      along[last] = now;
      beside[last - pace] = f;
    }
    simdgroup_barrier(mem_flags::mem_device);
    for (uint strip = share; strip < strips; strip += shares) {
      const long place = long(strip) * n * WIDTH;
      device T* first = (is_up ? left_strips : right_strips) + place;
      device T* second = (is_up ? right_strips : left_strips) + place;
      turn(first, right_cosines, right_sines, is_up ? high : low, pace, count);
      turn(second, left_cosines, left_sines, is_up ? high : low, pace, count);
    }
  }

  if (share != 0) {
    return;
  }
  const bool is_finite = is_number(scales[matrix]);
  const float undo = 1 / scales[matrix];
  for (uint i = lane; i < n; i += WIDTH) {
    const float x = abs(d[i]);
    uint rank = 0;
    for (uint j = 0; j < n; j++) {
      const float other = abs(d[j]);
      rank += other > x || (other == x && j < i) ? 1 : 0;
    }
    orders[begin + rank] = int(i);
    signs[begin + rank] = d[i] < 0 ? -1.0f : 1.0f;
    values[begin + rank] = x * undo;
  }
  if (lane == 0) {
    info[matrix] = is_finite ? int(high) : NOT_FINITE;
  }
}

// The vectors in their order: a threadgroup of one simdgroup has one of them.
template <typename T>
[[kernel]] void bidiagonal_vectors(
    device const T* strips [[buffer(0)]],
    device const int* orders [[buffer(1)]],
    device const T* signs [[buffer(2)]],
    device T* out [[buffer(3)]],
    constant long& size [[buffer(4)]],
    constant long& is_signed [[buffer(5)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint n = size, strip_count = (n + WIDTH - 1) / WIDTH;
  const long begin = long(group.y) * n, place = begin + group.x;
  const float sign = is_signed != 0 ? float(signs[place]) : 1.0f;
  strips += begin * strip_count * WIDTH + min(uint(orders[place]), n - 1) * WIDTH;
  for (uint j = lane; j < n; j += WIDTH) {
    out[place * n + j] = sign * strips[long(j / WIDTH) * n * WIDTH + lane];
  }
}

// The first rows from `first`, the others from the columns of q: a threadgroup of one simdgroup has a row of m.
template <typename T>
[[kernel]] void bidiagonal_complete(
    device const T* first [[buffer(0)]],
    device const T* q [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant long& few [[buffer(3)]],
    constant long& size [[buffer(4)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint n = few, m = size, row = group.x;
  const long matrix = group.y;
  for (uint j = lane; j < m; j += WIDTH) {
    out[(matrix * m + row) * m + j] = row < n ? first[(matrix * n + row) * m + j] : q[(matrix * m + j) * m + row];
  }
}

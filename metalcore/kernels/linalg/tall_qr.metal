// A = Q R of a matrix with many rows and few columns: shares of the rows, one to a thread, are factorised apart, the R
// of 32 threads are stacked and factorised by panel_qr.metal, and so is the stack of what comes out of that (Demmel,
// Grigori, Hoemmen, Langou: TSQR). The first rows of A, as many as it has columns, are kept for the last step: so pivots
// and signs are those of Householder's method on the whole matrix. Q is formed on the way back.
//
// A slab is 32 rows, one for each lane; a threadgroup has one simdgroup and takes slabs that follow each other. A thread
// takes in its rows by chunks: [R; chunk] is reduced to R again by reflectors whose v is 1 in one row of R and lies in
// the chunk otherwise. These v are kept in `v`, where 32 numbers beside each other belong to 32 threads.
#include "linalg/columns.h"

constant constexpr uint CHUNK = 24, CHUNK_PITCH = CHUNK + 1;

// Threadgroups share the slabs evenly: the first ones have one more.
struct Slabs {
  uint first;
  uint count;
  uint most;    // that any threadgroup has
  uint rows;    // of the matrix, in the last slab of all

  Slabs(uint all_rows, uint group, uint groups) {
    const uint slabs = (all_rows + LANES - 1) / LANES, each = slabs / groups, extra = slabs % groups;
    first = group * each + min(group, extra);
    count = each + (group < extra ? 1 : 0);
    most = each + (extra != 0 ? 1 : 0);
    rows = all_rows;
  }

  // How many rows of a slab there are.
  uint valid(uint slab) const { return min(LANES, rows - slab * LANES); }
};

// A lane's row of a slab of 32 rows of STRIDE numbers: element j goes to `to[j * pitch]`.
template <uint STRIDE, typename T>
inline void load_full(device const T* from, thread float* to, uint pitch, uint lane) {
  for (uint j = 0; j < STRIDE; j++) {
    to[j * pitch] = from[lane * STRIDE + j];
  }
}

template <uint STRIDE, typename T>
inline void store_full(thread const float* from, device T* to, uint pitch, uint lane) {
  for (uint j = 0; j < STRIDE; j++) {
    to[lane * STRIDE + j] = T(from[j * pitch]);
  }
}

// The same for any number of columns, through threadgroup memory; rows that are not there are zero.
template <typename T>
inline void load_slab(device const T* from, thread float* to, threadgroup float* tile, uint valid, uint columns,
                      uint pitch, uint lane) {
  if (valid == LANES && columns == 8) {
    load_full<8>(from, to, pitch, lane);
    return;
  }
  if (valid == LANES && columns == 16) {
    load_full<16>(from, to, pitch, lane);
    return;
  }
  for (uint m = 0; m < LANES; m++) {
    if (lane < columns) {
      tile[m * LANE_PITCH + lane] = m < valid ? float(from[m * columns + lane]) : 0.0f;
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  for (uint j = 0; j < columns; j++) {
    to[j * pitch] = tile[lane * LANE_PITCH + j];
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
}

template <typename T>
inline void store_slab(thread const float* from, device T* to, threadgroup float* tile, uint valid, uint columns,
                       uint pitch, uint lane) {
  if (valid == LANES && columns == 8) {
    store_full<8>(from, to, pitch, lane);
    return;
  }
  if (valid == LANES && columns == 16) {
    store_full<16>(from, to, pitch, lane);
    return;
  }
  for (uint j = 0; j < columns; j++) {
    tile[lane * LANE_PITCH + j] = from[j * pitch];
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  for (uint m = 0; m < valid; m++) {
    if (lane < columns) {
      to[m * columns + lane] = T(tile[m * LANE_PITCH + lane]);
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
}

// [r; y] := H [r; y] for one column: v is 1 in the row of `r`.
inline void reflect_chunk(thread const float* v, float tau, thread float& r, thread float* y, uint chunk) {
  float sum = r;
  for (uint i = 0; i < chunk; i++) {
    sum += v[i] * y[i];
  }
  sum *= tau;
  r -= sum;
  for (uint i = 0; i < chunk; i++) {
    y[i] -= v[i] * sum;
  }
}

inline void reflect_chunks(thread const float* v, float tau, thread float& r, thread float& s, thread float* y,
                           thread float* z, uint chunk) {
  float sum = r, other = s;
  for (uint i = 0; i < chunk; i++) {
    sum += v[i] * y[i];
    other += v[i] * z[i];
  }
  sum *= tau;
  other *= tau;
  r -= sum;
  s -= other;
  for (uint i = 0; i < chunk; i++) {
    const float first = y[i] - v[i] * sum, second = z[i] - v[i] * other;
    y[i] = first;
    z[i] = second;
  }
}

// R of each thread's rows, from the rows of `a` after the first n, and v and tau of its reflectors.
template <typename T, uint N>
[[kernel]] void tall_qr_up(
    device const T* a [[buffer(0)]],
    device T* v [[buffer(1)]],
    device T* tau [[buffer(2)]],
    device T* r [[buffer(3)]],
    constant long& row_count [[buffer(4)]],
    constant long& column_count [[buffer(5)]],
    constant long& chunk_rows [[buffer(6)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint2 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;
  threadgroup float tile[LANE_TILE];
  float top[N * PITCH], y[N * CHUNK_PITCH], taus[N];
  const uint n = column_count, rest = row_count - n;
  const uint most = chunk_rows;  // a number that is not known here: the loops must not be unrolled
  const Slabs slabs(rest, group.x, groups.x);
  const uint steps = 1 + (slabs.most - n + most - 1) / most;
  const long own = long(group.y) * groups.x + group.x, all = (rest + LANES - 1) / LANES;
  device const T* from = a + (group.y * row_count + n + long(slabs.first) * LANES) * n;
  device T* to_v = v + (group.y * all + slabs.first) * n * LANES + lane;
  device T* to_tau = tau + own * steps * n * LANES + lane;

  for (uint i = 0; i < n; i++) {
    load_slab(from + i * n * LANES, top + i, tile, slabs.valid(slabs.first + i), n, PITCH, lane);
  }
  factorise(top, taus, PITCH, n, n);
  for (uint j = 0; j < n; j++) {
    for (uint i = 0; i < n; i++) {
      to_v[(j * n + i) * LANES] = top[j * PITCH + i];
    }
    to_tau[j * LANES] = taus[j];
  }
  for (uint done = n; done < slabs.count; done += most) {
    const uint chunk = min(most, slabs.count - done);
    from += (done == n ? n : most) * n * LANES;
    to_v += (done == n ? n : most) * n * LANES;
    to_tau += n * LANES;
    for (uint i = 0; i < chunk; i++) {
      load_slab(from + i * n * LANES, y + i, tile, slabs.valid(slabs.first + done + i), n, CHUNK_PITCH, lane);
    }
    for (uint j = 0; j < n; j++) {
      thread float* x = y + j * CHUNK_PITCH;
      const float alpha = top[j * PITCH + j];
      float largest = fabs(alpha);
      for (uint i = 0; i < chunk; i++) {
        largest = max(largest, fabs(x[i]));
      }
      const float scale = column_scale(largest);
      float squares = 0;
      for (uint i = 0; i < chunk; i++) {
        const float value = x[i] * scale;
        squares += value * value;
      }
      const Reflector h = reflector(alpha * scale, squares);
      top[j * PITCH + j] = h.beta / scale;
      to_tau[j * LANES] = h.tau;
      for (uint i = 0; i < chunk; i++) {
        const float value = x[i] * scale * h.inverse;
        x[i] = value;
        to_v[(j * chunk + i) * LANES] = value;
      }
      uint l = j + 1;
      for (; l + 1 < n; l += 2) {
        reflect_chunks(x, h.tau, top[l * PITCH + j], top[(l + 1) * PITCH + j], y + l * CHUNK_PITCH,
                       y + (l + 1) * CHUNK_PITCH, chunk);
      }
      if (l < n) {
        reflect_chunk(x, h.tau, top[l * PITCH + j], y + l * CHUNK_PITCH, chunk);
      }
    }
  }
  store_columns(top, r, tile, n, n, PITCH, 1.0f, true, own * LANES, (own + 1) * LANES, lane);
}

// The rows of Q that belong to each thread, from the n x n matrix that the step above has for it in `above`. The first n
// rows of Q are those of `top`, which has `top_rows` of them.
template <typename T, uint N>
[[kernel]] void tall_qr_down(
    device const T* above [[buffer(0)]],
    device const T* top [[buffer(1)]],
    device const T* v [[buffer(2)]],
    device const T* tau [[buffer(3)]],
    device T* q [[buffer(4)]],
    constant long& row_count [[buffer(5)]],
    constant long& column_count [[buffer(6)]],
    constant long& chunk_rows [[buffer(7)]],
    constant long& top_rows [[buffer(8)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint2 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;
  threadgroup float tile[LANE_TILE];
  float x[N * PITCH], y[N * CHUNK_PITCH], w[N > CHUNK ? N : CHUNK];  // a chunk, then a column of x
  const uint n = column_count, rest = row_count - n, most = chunk_rows;
  const Slabs slabs(rest, group.x, groups.x);
  const uint steps = 1 + (slabs.most - n + most - 1) / most;
  const long own = long(group.y) * groups.x + group.x, all = (rest + LANES - 1) / LANES;
  device T* to = q + (group.y * row_count + n + long(slabs.first) * LANES) * n;
  device const T* from_v = v + (group.y * all + slabs.first) * n * LANES + lane;
  device const T* from_tau = tau + own * steps * n * LANES + lane;

  load_columns(above, x, tile, n, n, PITCH, own * LANES, (own + 1) * LANES, lane);
  if (group.x == 0) {
    for (uint i = lane; i < n * n; i += LANES) {
      q[group.y * row_count * n + i] = top[group.y * top_rows * n + i];
    }
  }
  for (uint step = (slabs.count - n + most - 1) / most; step > 0; step--) {
    const uint done = n + (step - 1) * most, chunk = min(most, slabs.count - done);
    device const T* chunk_v = from_v + done * n * LANES;
    for (uint l = 0; l < n; l++) {
      for (uint i = 0; i < chunk; i++) {
        y[l * CHUNK_PITCH + i] = 0;
      }
    }
    for (uint k = 0; k < n; k++) {
      const uint j = n - 1 - k;
      const float t = from_tau[(step * n + j) * LANES];
      for (uint i = 0; i < chunk; i++) {
        w[i] = chunk_v[(j * chunk + i) * LANES];
      }
      uint l = 0;
      for (; l + 1 < n; l += 2) {
        reflect_chunks(w, t, x[l * PITCH + j], x[(l + 1) * PITCH + j], y + l * CHUNK_PITCH, y + (l + 1) * CHUNK_PITCH,
                       chunk);
      }
      if (l < n) {
        reflect_chunk(w, t, x[l * PITCH + j], y + l * CHUNK_PITCH, chunk);
      }
    }
    for (uint i = 0; i < chunk; i++) {
      store_slab(y + i, to + (done + i) * n * LANES, tile, slabs.valid(slabs.first + done + i), n, CHUNK_PITCH, lane);
    }
  }
  for (uint k = 0; k < n; k++) {
    const uint j = n - 1 - k;
    for (uint i = j + 1; i < n; i++) {
      w[i] = from_v[(j * n + i) * LANES];
    }
    reflect(w, from_tau[j * LANES], x, PITCH, 0, n, j, n);
  }
  for (uint i = 0; i < n; i++) {
    store_slab(x + i, to + i * n * LANES, tile, slabs.valid(slabs.first + i), n, PITCH, lane);
  }
}

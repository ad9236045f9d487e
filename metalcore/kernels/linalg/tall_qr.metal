// A = Q R of a matrix with many rows and few columns: blocks of rows, one to a thread, are factorised apart, the R of
// the blocks are stacked and factorised in turn, until one is left (Demmel, Grigori, Hoemmen, Langou: TSQR). The first
// rows of A, as many as it has columns, are kept for the last step: so pivots and signs are those of Householder's
// method on the whole matrix. Q is formed on the way back.
//
// A block of more rows is taken in by chunks: [R; chunk] is reduced to R again by reflectors whose v is 1 in one row of
// R and lies in the chunk otherwise. These v are kept in `v`, where 32 numbers beside each other belong to 32 threads.
#include "linalg/columns.h"

// Blocks share the rows evenly: the first ones have one more.
struct Rows {
  uint each;
  uint extra;

  uint begin(uint block) const { return block * each + min(block, extra); }
  uint count(uint block) const { return each + (block < extra ? 1 : 0); }
};

constant constexpr uint CHUNK = 32, CHUNK_PITCH = CHUNK + 1;

// Rows `row` to `row` + `count` of the thread's block: element (i, j) goes to `to[j * pitch + i]`; what is beyond the
// block is zero.
template <typename T>
inline void load_rows(device const T* from, thread float* to, threadgroup float* tile, Rows rows, uint row, uint count,
                      uint columns, uint pitch, uint first, uint blocks, uint lane) {
  const uint size = count * columns;
  uint place = 0, i = 0;
  for (uint begin = 0; begin < size; begin += LANES) {
    const uint filled = min(LANES, size - begin);
    for (uint m = 0; m < LANES; m++) {
      const uint block = min(first + m, blocks - 1), there = rows.count(block);
      const uint limit = there > row ? (there - row) * columns : 0;
      device const T* source = from + long(rows.begin(block) + row) * columns;
      tile[m * LANE_PITCH + lane] = begin + lane < min(limit, size) ? float(source[begin + lane]) : 0.0f;
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint e = 0; e < filled; e++) {
      to[place + i] = tile[lane * LANE_PITCH + e];
      place += pitch;
      if (place == columns * pitch) {
        place = 0;
        i++;
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// The reverse; what is beyond the block is not stored.
template <typename T>
inline void store_rows(thread const float* from, device T* to, threadgroup float* tile, Rows rows, uint row, uint count,
                       uint columns, uint pitch, uint first, uint blocks, uint lane) {
  const uint size = count * columns;
  uint place = 0, i = 0;
  for (uint begin = 0; begin < size; begin += LANES) {
    const uint filled = min(LANES, size - begin);
    for (uint e = 0; e < filled; e++) {
      tile[lane * LANE_PITCH + e] = from[place + i];
      place += pitch;
      if (place == columns * pitch) {
        place = 0;
        i++;
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint m = 0; m < LANES && first + m < blocks; m++) {
      const uint block = first + m, there = rows.count(block);
      const uint limit = there > row ? (there - row) * columns : 0;
      device T* target = to + long(rows.begin(block) + row) * columns;
      if (begin + lane < min(limit, size)) {
        target[begin + lane] = T(tile[m * LANE_PITCH + lane]);
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// [r; y] := H [r; y] for one column: v is 1 in the row of `r`.
inline void reflect_chunk(thread const float* v, float tau, thread float& r, thread float* y) {
  float sum = r;
  for (uint i = 0; i < CHUNK; i++) {
    sum += v[i] * y[i];
  }
  sum *= tau;
  r -= sum;
  for (uint i = 0; i < CHUNK; i++) {
    y[i] -= v[i] * sum;
  }
}

inline void reflect_chunks(thread const float* v, float tau, thread float& r, thread float& s, thread float* y,
                           thread float* z) {
  float sum = r, other = s;
  for (uint i = 0; i < CHUNK; i++) {
    sum += v[i] * y[i];
    other += v[i] * z[i];
  }
  sum *= tau;
  other *= tau;
  r -= sum;
  s -= other;
  for (uint i = 0; i < CHUNK; i++) {
    y[i] -= v[i] * sum;
    z[i] -= v[i] * other;
  }
}

// R of each block, from the rows of `a` after the first `skip`, and v and tau of its reflectors.
template <typename T, uint N>
[[kernel]] void tall_qr_up(
    device const T* a [[buffer(0)]],
    device T* v [[buffer(1)]],
    device T* tau [[buffer(2)]],
    device T* r [[buffer(3)]],
    constant long& row_count [[buffer(4)]],
    constant long& column_count [[buffer(5)]],
    constant long& skip [[buffer(6)]],
    constant long& block_count [[buffer(7)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint2 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;
  threadgroup float tile[LANE_TILE];
  float top[N * PITCH], y[N * CHUNK_PITCH], taus[N];
  const uint n = column_count, blocks = block_count, first = group.x * LANES;
  const uint rest = row_count - skip;
  const Rows rows = {rest / blocks, rest % blocks};
  const uint longest = rows.count(0), chunks = (longest - n + CHUNK - 1) / CHUNK;
  const long own = long(group.y) * groups.x + group.x;
  device const T* from = a + (long(group.y) * row_count + skip) * n;
  device T* to_v = v + own * (n + chunks * CHUNK) * n * LANES + lane;
  device T* to_tau = tau + own * (1 + chunks) * n * LANES + lane;

  load_rows(from, top, tile, rows, 0, n, n, PITCH, first, blocks, lane);
  factorise(top, taus, PITCH, n, n);
  for (uint j = 0; j < n; j++) {
    for (uint i = 0; i < n; i++) {
      to_v[(j * n + i) * LANES] = top[j * PITCH + i];
    }
    to_tau[j * LANES] = taus[j];
  }
  to_v += n * n * LANES;
  to_tau += n * LANES;
  for (uint c = 0; c < chunks; c++) {
    load_rows(from, y, tile, rows, n + c * CHUNK, CHUNK, n, CHUNK_PITCH, first, blocks, lane);
    for (uint j = 0; j < n; j++) {
      thread float* x = y + j * CHUNK_PITCH;
      const float alpha = top[j * PITCH + j];
      float most = fabs(alpha);
      for (uint i = 0; i < CHUNK; i++) {
        most = max(most, fabs(x[i]));
      }
      const float scale = column_scale(most);
      float squares = 0;
      for (uint i = 0; i < CHUNK; i++) {
        const float value = x[i] * scale;
        squares += value * value;
      }
      const Reflector h = reflector(alpha * scale, squares);
      top[j * PITCH + j] = h.beta / scale;
      to_tau[j * LANES] = h.tau;
      for (uint i = 0; i < CHUNK; i++) {
        x[i] = x[i] * scale * h.inverse;
        to_v[(j * CHUNK + i) * LANES] = x[i];
      }
      uint l = j + 1;
      for (; l + 1 < n; l += 2) {
        reflect_chunks(x, h.tau, top[l * PITCH + j], top[(l + 1) * PITCH + j], y + l * CHUNK_PITCH,
                       y + (l + 1) * CHUNK_PITCH);
      }
      if (l < n) {
        reflect_chunk(x, h.tau, top[l * PITCH + j], y + l * CHUNK_PITCH);
      }
    }
    to_v += CHUNK * n * LANES;
    to_tau += n * LANES;
  }
  device T* to = r + long(group.y) * blocks * n * n;
  store_columns(top, to, tile, n, n, PITCH, 1.0f, true, first, blocks, lane);
}

// The last step: R of the first rows of `a` on top of `r`, and the Q of these two, which has 2 n rows.
template <typename T, uint N>
[[kernel]] void tall_qr_top(
    device const T* a [[buffer(0)]],
    device const T* r [[buffer(1)]],
    device T* q [[buffer(2)]],
    device T* out [[buffer(3)]],
    constant long& count [[buffer(4)]],
    constant long& row_count [[buffer(5)]],
    constant long& column_count [[buffer(6)]],
    constant long& wants_q [[buffer(7)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = 2 * N + 1;
  threadgroup float tile[LANE_TILE];
  float m[N * PITCH], taus[N];
  const uint n = column_count;
  const long matrix = long(group) * LANES + lane, known = min(matrix, count - 1);
  for (uint i = 0; i < n; i++) {
    for (uint j = 0; j < n; j++) {
      m[j * PITCH + i] = a[known * row_count * n + i * n + j];
      m[j * PITCH + n + i] = r[known * n * n + i * n + j];
    }
  }
  factorise(m, taus, PITCH, 2 * n, n);
  store_columns(m, out, tile, n, n, PITCH, 1.0f, true, long(group) * LANES, count, lane);
  if (wants_q != 0) {
    form_q(m, taus, PITCH, 2 * n, n, n);
    store_columns(m, q, tile, 2 * n, n, PITCH, 1.0f, false, long(group) * LANES, count, lane);
  }
}

// The rows of Q that belong to each block, from the n x n matrix that the level above has for the block in `above`
// (`distance` elements from matrix to matrix). The first `skip` rows of Q are those before `above`.
template <typename T, uint N>
[[kernel]] void tall_qr_down(
    device const T* above [[buffer(0)]],
    device const T* top [[buffer(1)]],
    device const T* v [[buffer(2)]],
    device const T* tau [[buffer(3)]],
    device T* q [[buffer(4)]],
    constant long& row_count [[buffer(5)]],
    constant long& column_count [[buffer(6)]],
    constant long& skip [[buffer(7)]],
    constant long& block_count [[buffer(8)]],
    constant long& is_top [[buffer(9)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint2 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint PITCH = N + 1;
  threadgroup float tile[LANE_TILE];
  float x[N * PITCH], y[N * CHUNK_PITCH], w[CHUNK];
  const uint n = column_count, blocks = block_count, first = group.x * LANES;
  const uint rest = row_count - skip;
  const Rows rows = {rest / blocks, rest % blocks};
  const uint longest = rows.count(0), chunks = (longest - n + CHUNK - 1) / CHUNK;
  const long own = long(group.y) * groups.x + group.x;
  device T* to = q + (long(group.y) * row_count + skip) * n;
  device const T* from_v = v + (own * (n + chunks * CHUNK) + n + chunks * CHUNK) * n * LANES + lane;
  device const T* from_tau = tau + (own * (1 + chunks) + 1 + chunks) * n * LANES + lane;

  // Above the highest level stands the Q of the last step, whose first rows are not a block's
  device const T* from = above + (is_top != 0 ? (2 * long(group.y) + 1) * n * n : long(group.y) * blocks * n * n);
  load_columns(from, x, tile, n, n, PITCH, first, blocks, lane);
  if (skip != 0 && group.x == 0) {
    for (uint i = 0; i < n; i++) {
      if (lane < n) {
        q[(long(group.y) * row_count + i) * n + lane] = top[(2 * long(group.y) * n + i) * n + lane];
      }
    }
  }
  for (uint back = 0; back < chunks; back++) {
    const uint c = chunks - 1 - back;
    from_v -= CHUNK * n * LANES;
    from_tau -= n * LANES;
    for (uint l = 0; l < n; l++) {
      for (uint i = 0; i < CHUNK; i++) {
        y[l * CHUNK_PITCH + i] = 0;
      }
    }
    for (uint k = 0; k < n; k++) {
      const uint j = n - 1 - k;
      const float t = from_tau[j * LANES];
      for (uint i = 0; i < CHUNK; i++) {
        w[i] = from_v[(j * CHUNK + i) * LANES];
      }
      uint l = 0;
      for (; l + 1 < n; l += 2) {
        reflect_chunks(w, t, x[l * PITCH + j], x[(l + 1) * PITCH + j], y + l * CHUNK_PITCH, y + (l + 1) * CHUNK_PITCH);
      }
      if (l < n) {
        reflect_chunk(w, t, x[l * PITCH + j], y + l * CHUNK_PITCH);
      }
    }
    store_rows(y, to, tile, rows, n + c * CHUNK, CHUNK, n, CHUNK_PITCH, first, blocks, lane);
  }
  from_v -= n * n * LANES;
  from_tau -= n * LANES;
  for (uint k = 0; k < n; k++) {
    const uint j = n - 1 - k;
    for (uint i = j + 1; i < n; i++) {
      w[i] = from_v[(j * n + i) * LANES];
    }
    reflect(w, from_tau[j * LANES], x, PITCH, 0, n, j, n);
  }
  store_rows(x, to, tile, rows, 0, n, n, PITCH, first, blocks, lane);
}

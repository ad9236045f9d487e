// mLSTM by chunks: what goes from chunk to chunk. One kernel does it four times, with X a state of (depth, width):
//   h    lanes v: reads X with q, X takes k and v            dq  lanes k: reads X with dh, X takes v and k
//   dv   lanes dh, backwards: reads X with k, takes q, dh    dk  lanes q, backwards: reads X with v, takes dh and q
// out_t = sum over s of M_ts lane_s + read_t X,  X = keep X + sum over s of write_s lane_s. M: A for h and its transpose
// for dv, dS for dq and its transpose for dk. Where lanes are elements of keys, the normaliser n is one more element of
// X, whose value is 1 and whose gradient is that of r.
#include "mlstm.h"

constant bool has_states [[function_constant(1)]];  // X is not 0 at the start
constant bool is_backwards [[function_constant(2)]];
constant bool is_of_keys [[function_constant(3)]];    // lanes are elements of q or k
constant bool keeps_states [[function_constant(4)]];  // dq writes X before every chunk, dk multiplies its own with it

// Factors of rows: the part of a state that is read or written, and the scale; dh comes without its denominator.
struct Factor {
  device const float* times;
  device const float* below;
  float scale;
  bool is_divided;

  float at(uint t) const {
    const float x = times[t] * scale;
    return is_divided ? x / below[t] : x;
  }
};

// The product of a state and its gradient: how much it has to do with what follows. Of the columns of this threadgroup.
// Two numbers a share: those of several threadgroups may be far larger than their sum.
inline void write_share(
    device float* share,
    thread const float* x,
    float n,
    device const float* state,
    uint begin,
    uint count,
    uint depth,
    bool is_column,
    threadgroup float* partial,
    Lane at) {
  ExactSum sum = {0.0f, 0.0f};
  for (uint p = 0; p < count; ++p) {
    sum = added_product(sum, x[p], state[(begin + p) * 32]);
  }
  if (at.group == 0) {
    sum = added_product(sum, n, state[depth * 32]);
  }
  sum = group_total(is_column ? sum : ExactSum{0.0f, 0.0f}, partial, partial + 32, at);
  if (at.lane == 0 && at.group == 0) {
    share[0] = sum.value;
    share[1] = sum.error;
  }
}

// A lane has a column of X, simdgroups share its elements. grid: blocks of 32 columns, heads.
template <typename T, typename O, typename S, typename L, uint ROOM, uint SLICE>
[[kernel]] void mlstm_scan(
    device const T* lanes [[buffer(0)]],
    device const T* read [[buffer(1)]],
    device const T* write [[buffer(2)]],
    device const T* own [[buffer(3)]],
    device const float* matrix [[buffer(4)]],
    device const float* gates [[buffer(5)]],
    device const float* keep [[buffer(6)]],
    device const float* norms [[buffer(7)]],
    device const float* deltas [[buffer(8)]],
    device const S* initial [[buffer(9)]],
    device const S* n_initial [[buffer(10)]],
    device O* out [[buffer(11)]],
    device L* last [[buffer(12)]],
    device L* n_last [[buffer(13)]],
    device float* states [[buffer(14)]],
    device const float* kept_states [[buffer(15)]],
    device float* shares [[buffer(16)]],
    device float* products [[buffer(17)]],
    constant long& heads [[buffer(18)]],
    constant long& length [[buffer(19)]],
    constant long& depth [[buffer(20)]],
    constant long& width [[buffer(21)]],
    constant long& chunk [[buffer(22)]],
    constant float& scale [[buffer(23)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint3 groups [[threadgroups_per_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint simd_groups [[simdgroups_per_threadgroup]]) {
  threadgroup float tile[ROWS * ROOM];
  threadgroup float partial[partial_size<ROOM, SLICE>()];
  const Lane at = {simd_lane_id, simd_group_id, simd_groups};
  const uint head = gid.y;
  const uint column = gid.x * 32 + at.lane;
  const bool is_column = column < uint(width);
  const uint mine = min(column, uint(width) - 1);
  const uint begin = min(at.group * SLICE, uint(depth));
  const uint count = min(SLICE, uint(depth) - begin);
  const uint chunks = uint((length + chunk - 1) / chunk);
  const ulong plane = heads * length;
  const ulong start = head * ulong(length);
  device const float* below = norms + DENOMINATOR * plane + start;
  device const float* dr = deltas + NORMALISER_GRADIENT * plane + start;
  device const float* reads = gates + READ * plane + start;
  device const float* writes = gates + WRITE * plane + start;
  // X of (depth, width) lies so in memory where lanes are values, and the other way round where they are keys.
  const ulong state_step = is_of_keys ? 1 : width;
  const ulong state_start = head * ulong(depth * width) + (is_of_keys ? mine * ulong(depth) : mine);
  // Kept states lie lane by lane: (heads, chunks + 1, blocks, depth + 1, 32).
  const ulong kept_size = ulong(depth + 1) * 32;
  const ulong kept_start = (head * ulong(chunks + 1) * groups.x + gid.x) * kept_size + at.lane;
  device float* of_head = shares + (head * ulong(chunks + 2) * groups.x + gid.x) * 2;

  float x[SLICE];
  for (uint p = 0; p < count; ++p) {
    x[p] = has_states ? float(initial[state_start + (begin + p) * state_step]) : 0.0f;
  }
  float n = is_of_keys && has_states ? float(n_initial[head * ulong(width) + mine]) : 0.0f;

  for (uint i = 0; i < chunks; ++i) {
    const uint c = is_backwards ? chunks - 1 - i : i;
    const uint first = c * uint(chunk);
    const uint rows = min(uint(chunk), uint(length) - first);
    device const float* m = matrix + (head * ulong(chunks) + c) * chunk * chunk;
    const ulong row = start + first;
    if (keeps_states && !is_backwards) {
      device float* to = states + kept_start + c * groups.x * kept_size;
      for (uint p = 0; p < count; ++p) {
        to[(begin + p) * 32] = x[p];
      }
      if (at.group == 0) {
        to[uint(depth) * 32] = n;
      }
    }
    if (keeps_states && is_backwards) {
      if (i == 0) {
        device const float* after = kept_states + kept_start + chunks * groups.x * kept_size;
        write_share(
            of_head + chunks * groups.x * 2, x, n, after, begin, count, uint(depth), is_column, partial, at);
      }
      device const float* before = kept_states + kept_start + c * groups.x * kept_size;
      write_share(of_head + c * groups.x * 2, x, n, before, begin, count, uint(depth), is_column, partial, at);
    }

    const Factor to_read = {
        (is_backwards ? writes : reads) + first, below + first, is_backwards ? 1.0f : scale, !is_backwards && is_of_keys};
    for (uint from = 0; from < rows; from += ROWS) {
      fill_rows(tile, read + row * depth, uint(depth), from, rows, to_read, at);
      float sums[ROWS];
      clear(sums);
      add_products(sums, x, tile, uint(depth), begin, count);
      float inter[ROWS];  // of the state alone
      if (is_of_keys) {
#pragma unroll
        for (uint e = 0; e < ROWS; ++e) {
          inter[e] = sums[e];
        }
        join_slices(inter, partial, at);
      }
      const uint low = is_backwards ? from : 0;
      const uint high = is_backwards ? rows : min(from + ROWS, rows);
      for (uint s = low + at.group; s < high; s += at.groups) {
        float one = float(lanes[(row + s) * width + mine]);
        if (is_backwards && !is_of_keys) {
          one /= below[first + s];
        }
#pragma unroll
        for (uint e = 0; e < ROWS; ++e) {
          sums[e] = fma(is_backwards ? m[(from + e) * ulong(chunk) + s] : m[s * ulong(chunk) + from + e], one, sums[e]);
        }
      }
      join_slices(sums, partial, at);
#pragma unroll
      for (uint e = 0; e < ROWS; ++e) {
        const uint t = from + e;
        if (e % at.groups == at.group && t < rows) {
          float found = sums[e];
          float of_state = 0.0f;
          if (is_of_keys) {
            const float times = is_backwards ? writes[first + t] : reads[first + t] * scale * dr[first + t];
            found = fma(n, times, found);
            of_state = fma(n, times, inter[e]);
          } else if (!is_backwards) {
            found /= below[first + t];
          }
          if (is_column) {
            out[(row + t) * width + column] = O(found);
          }
          if (is_of_keys) {  // q dq or k dk
            const float product = simd_sum(is_column ? of_state * float(own[(row + t) * width + mine]) : 0.0f);
            if (at.lane == 0) {
              products[(row + t) * groups.x + gid.x] = product;
            }
          }
        }
      }
    }

    const Factor to_write = {
        (is_backwards ? reads : writes) + first, below + first, is_backwards ? scale : 1.0f, is_backwards && is_of_keys};
    const float kept = keep[head * ulong(chunks) + c];
    for (uint p = 0; p < count; ++p) {
      x[p] *= kept;
    }
    n *= kept;
    const uint tiles = (rows + ROWS - 1) / ROWS;
    for (uint done = 0; done < tiles; ++done) {  // rows that count most come last: the sum is rounded least
      const uint from = (is_backwards ? tiles - 1 - done : done) * ROWS;
      fill_rows(tile, write + row * depth, uint(depth), from, rows, to_write, at);
      float one[ROWS];
#pragma unroll
      for (uint j = 0; j < ROWS; ++j) {
        const uint e = is_backwards ? ROWS - 1 - j : j;
        const uint t = min(from + e, rows - 1);
        one[e] = float(lanes[(row + t) * width + mine]);
        if (is_backwards && !is_of_keys) {
          one[e] /= below[first + t];
        }
        if (is_of_keys && from + e < rows) {
          n = fma(one[e], is_backwards ? reads[first + t] * scale * dr[first + t] : writes[first + t], n);
        }
      }
      threadgroup const float* own = tile + begin;
      for (uint p = 0; p < count; ++p) {
        float sum = 0.0f;
#pragma unroll
        for (uint j = 0; j < ROWS; ++j) {
          const uint e = is_backwards ? ROWS - 1 - j : j;
          sum = fma(one[e], own[e * uint(depth) + p], sum);
        }
        x[p] += sum;
      }
    }
  }

  if (keeps_states && !is_backwards) {
    device float* to = states + kept_start + chunks * groups.x * kept_size;
    for (uint p = 0; p < count; ++p) {
      to[(begin + p) * 32] = x[p];
    }
    if (at.group == 0) {
      to[uint(depth) * 32] = n;
    }
  }
  if (keeps_states && is_backwards) {
    device const float* first = kept_states + kept_start;
    write_share(
        of_head + (chunks + 1) * groups.x * 2, x, n, first, begin, count, uint(depth), is_column, partial, at);
    if (chunks == 0) {
      write_share(of_head, x, n, first, begin, count, uint(depth), is_column, partial, at);
    }
  }
  if (!is_column) {
    return;
  }
  if (!is_of_keys) {
    for (uint p = 0; p < count; ++p) {
      last[state_start + (begin + p) * state_step] = L(x[p]);
    }
  } else if (is_backwards && at.group == 0) {
    n_last[head * ulong(width) + column] = L(n);
  }
}

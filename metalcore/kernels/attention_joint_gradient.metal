// Attention, backward, with dq, dk and dv in one pass over the scores: 5 products, not 7 as in attention_gradient.metal.
// A threadgroup of one simdgroup has a key head, so that every sum has one order, the same as there.
#include "attention_gradient.h"

// Where the sums of dq stand between blocks of keys: in dq itself. A number of 16 bits has the upper half of a float,
// and `lower` the other one: float sums in half the memory that an array of their own would take.
template <typename T>
struct QuerySums {
  device T* dq;
  device T* lower;

  QuerySums from(ulong i) const { return {dq + i, sizeof(T) > 2 ? lower : lower + i}; }
  float get(ulong i) const {
    if constexpr (sizeof(T) > 2) {
      return dq[i];
    } else {
      const uint bits = uint(as_type<ushort>(dq[i])) << 16 | as_type<ushort>(lower[i]);
      return as_type<float>(as_type<vec<T, 2>>(bits));  // by way of T, or it would not compile where float is double
    }
  }
  void set(ulong i, float x) const {
    if constexpr (sizeof(T) > 2) {
      dq[i] = x;
    } else {
      const uint bits = as_type<uint>(as_type<vec<T, 2>>(x));
      dq[i] = as_type<T>(ushort(bits >> 16));
      lower[i] = as_type<T>(ushort(bits));
    }
  }
};

// To N rows of dq from `row` on, as far as they are there, in 32 columns: sum over j of ds[row][j] key_j. Here a lane has
// a column: ds need not be transposed. A column that is not new has its sum already.
template <typename T, uint N, bool skips, typename P>
inline void add_keys(
    QuerySums<T> sums, ulong pitch, uint row, uint rows, threadgroup const float* ds, P keys, ulong key_pitch, uint n,
    uint lane, bool is_new) {
  for (uint from = 0; from < n; from += rows_at_once<T>()) {
    const uint end = min(from + rows_at_once<T>(), n);
    uint at[N];
    float part[N];
#pragma unroll
    for (uint e = 0; e < N; ++e) {
      at[e] = min(row + e, rows - 1) * BLOCK;
      part[e] = 0.0f;
    }
#pragma clang loop unroll(disable)
    for (uint j = from; j < end; ++j) {
      const float key = float(keys[j * key_pitch + lane]);
#pragma unroll
      for (uint e = 0; e < N; ++e) {
        const float weight = ds[at[e] + j];
        part[e] = fma(weight, skips && weight == 0.0f ? 0.0f : key, part[e]);
      }
    }
#pragma unroll
    for (uint e = 0; e < N; ++e) {
      if (row + e < rows) {
        const float sum = sums.get((row + e) * pitch + lane);
        sums.set((row + e) * pitch + lane, is_new ? sum + part[e] : sum);
      }
    }
  }
}

// The share of n keys in rows of dq. Numbers of 16 bits are widened once for all rows, into `wide`.
template <typename T, uint N, bool skips>
inline void add_to_queries(
    QuerySums<T> sums, ulong pitch, uint rows, threadgroup const float* ds, threadgroup float* wide, Rows<T> keys, uint n,
    uint depth, uint lane) {
  for (uint d = 0; d < depth; d += 32) {
    // The last 32 columns reach back to earlier ones: a part of a row of 16-bit numbers would be read lane by lane.
    const uint first = min(d, max(depth, 32u) - 32);
    if (first < d) {
      simdgroup_barrier(mem_flags::mem_device);  // other lanes have written those columns
    }
    if (first + lane < depth) {
      device const T* narrow = keys.base + first;
      if (sizeof(T) == 2) {
        for (uint j = 0; j < n; ++j) {
          wide[j * 32 + lane] = float(narrow[j * keys.pitch + lane]);
        }
      }
      for (uint row = 0; row < rows; row += N) {
        const bool is_new = first + lane >= d;
        if constexpr (sizeof(T) == 2) {
          threadgroup const float* widened = wide;
          add_keys<T, N, skips>(sums.from(first), pitch, row, rows, ds, widened, 32, n, lane, is_new);
        } else {
          add_keys<T, N, skips>(sums.from(first), pitch, row, rows, ds, narrow, keys.pitch, n, lane, is_new);
        }
      }
    }
  }
}

// A lane has a key, and goes over the queries of all query heads of its head. grid: key heads, batch.
template <typename T, uint C, bool is_tiled>
[[kernel]] void attention_joint_gradient(
    device const T* g [[buffer(0)]],
    device const T* q [[buffer(1)]],
    device const T* k [[buffer(2)]],
    device const T* v [[buffer(3)]],
    device const T* bias [[buffer(4)]],
    device const bool* mask [[buffer(5)]],
    device const float* slopes [[buffer(6)]],
    device const long* seed [[buffer(7)]],
    device const float* stats [[buffer(8)]],
    device const float* delta [[buffer(9)]],
    device T* dq [[buffer(10)]],
    device T* dk [[buffer(11)]],
    device T* dv [[buffer(12)]],
    device T* lower [[buffer(13)]],
    constant long& queries [[buffer(14)]],
    constant long& keys [[buffer(15)]],
    constant long& heads [[buffer(16)]],
    constant long& heads_each [[buffer(17)]],
    constant long& depth [[buffer(18)]],
    constant long& width [[buffer(19)]],
    constant float& scale [[buffer(20)]],
    constant float& softcap [[buffer(21)]],
    constant long& low [[buffer(22)]],
    constant long& high [[buffer(23)]],
    constant long& mask_batch [[buffer(24)]],
    constant long& mask_head [[buffer(25)]],
    constant long& mask_query [[buffer(26)]],
    constant long& mask_key [[buffer(27)]],
    constant float& dropped [[buffer(28)]],
    constant long& flags [[buffer(29)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint simd_lane_id [[thread_index_in_simdgroup]]) {
  threadgroup float tile[BLOCK * (is_tiled && C > 64 ? C : is_tiled || sizeof(T) == 2 ? 64 : 32)];
  const Lane at = {simd_lane_id, 0, 1};
  const uint set = uint(flags);
  const uint key_head = gid.x;
  const uint batch = gid.y;
  const uint key_heads = uint(heads / heads_each);
  const uint first_head = key_head * uint(heads_each);
  const uint last_head = first_head + uint(heads_each);
  const Layout of_q = layout_of(queries, heads, depth, set & QUERY_ROWS_FIRST);
  const Layout of_g = layout_of(queries, heads, width, set & QUERY_ROWS_FIRST);
  const Layout of_k = layout_of(keys, key_heads, depth, set & KEY_ROWS_FIRST);
  const Layout of_v = layout_of(keys, key_heads, width, set & KEY_ROWS_FIRST);
  for (uint head = first_head; head < last_head; ++head) {
    const QuerySums<T> sums = QuerySums<T>{dq, lower}.from(batch * of_q.batch + head * of_q.head);
    for (uint i = 0; i < uint(queries); ++i) {
      for (uint d = simd_lane_id; d < uint(depth); d += 32) {
        sums.set(i * of_q.row + d, 0.0f);
      }
    }
  }

  float own_k[C];
  float own_v[C];
  float high_k[C];
  float low_k[C];
  float high_v[C];
  float low_v[C];
  float ds[BLOCK];
  const Sums sums_k = {high_k, low_k};
  const Sums sums_v = {high_v, low_v};
  for (uint first = 0; first < uint(keys); first += 32) {
    const uint count = min(32u, uint(keys) - first);
    const uint key = min(first + simd_lane_id, uint(keys) - 1);
    // A key sees the queries that see it: from key - high to key - low.
    const Span span = span_of(int(first), int(first + count) - 1, -int(high), -int(low), int(queries));
    const ulong head_k = batch * of_k.batch + key_head * of_k.head;
    const ulong from_k = head_k + key * of_k.row;
    const ulong from_v = batch * of_v.batch + key_head * of_v.head + key * of_v.row;
    const Rows<T> of_keys = {k + head_k + first * of_k.row, of_k.row, nullptr, 1, 1.0f};
    read_row(own_k, k + from_k, uint(depth));
    read_row(own_v, v + from_v, uint(width));
    clear_row(sums_k, uint(depth));
    clear_row(sums_v, uint(width));
    const bool is_special = has_special(of_keys.base, of_keys.pitch, count, uint(depth), simd_lane_id);
    for (uint head = first_head; head < last_head; ++head) {
      const Rows<T> of_queries = {q + batch * of_q.batch + head * of_q.head, of_q.row, nullptr, 1, 1.0f};
      const Rows<T> of_grads = {g + batch * of_g.batch + head * of_g.head, of_g.row, nullptr, 1, 1.0f};
      Scores<T> how = {set, softcap, 0.0f, bias, mask, mask_query, 0, int(key) - int(high), int(key) - int(low)};
      if (has_extras) {
        const long from = batch * mask_batch + head * mask_head + key * mask_key;
        how.bias = set & HAS_BIAS ? bias + from : bias;
        how.mask = set & HAS_MASK ? mask + from : mask;
        how.place = int(key) - int(keys) + int(queries);
        if (set & HAS_SLOPES) {
          how.slope = slopes[(set & SLOPES_BY_BATCH ? batch * uint(heads) : 0) + head];
        }
      }
      const Dropout dropout = dropout_of(seed, dropped, batch * uint(heads) + head);
      const ulong place = (batch * ulong(heads) + head) * queries;
      const QuerySums<T> sums = QuerySums<T>{dq, lower}.from(batch * of_q.batch + head * of_q.head);
      for (uint from = span.begin; from < span.end; from += BLOCK) {
        const uint n = min(BLOCK, span.end - from);
        const bool is_edge = span.is_edge(from, n);
        const Over<T> over = {of_queries, of_grads, how, dropout, scale, uint(depth), uint(width), tile};
        add_block_to_key<T, is_tiled>(
            own_k, own_v, sums_k, sums_v, over, stats + 2 * place, delta + 2 * place, key, from, n, is_edge, at, ds);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        for (uint i = 0; i < n; ++i) {
          tile[i * BLOCK + simd_lane_id] = ds[i];
        }
        simdgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);  // ds, and columns of dq
        const QuerySums<T> rows = sums.from(from * of_q.row);
        if (is_special && (is_edge || (has_extras && (set & (HAS_BIAS | HAS_MASK))))) {
          add_to_queries<T, 1, true>(rows, of_q.row, n, tile, tile + BLOCK * 32, of_keys, count, uint(depth), simd_lane_id);
        } else {
          add_to_queries<T, COLUMNS, false>(rows, of_q.row, n, tile, tile + BLOCK * 32, of_keys, count, uint(depth), simd_lane_id);
        }
      }
    }
    if (first + simd_lane_id < uint(keys)) {
      write_row(dk + from_k, sums_k, uint(depth));
      write_row(dv + from_v, sums_v, uint(width));
    }
  }
  if (sizeof(T) == 2) {  // sums become results
    simdgroup_barrier(mem_flags::mem_device);
    for (uint head = first_head; head < last_head; ++head) {
      const QuerySums<T> sums = QuerySums<T>{dq, lower}.from(batch * of_q.batch + head * of_q.head);
      for (uint i = 0; i < uint(queries); ++i) {
        for (uint d = simd_lane_id; d < uint(depth); d += 32) {
          sums.dq[i * of_q.row + d] = T(sums.get(i * of_q.row + d));
        }
      }
    }
  }
}

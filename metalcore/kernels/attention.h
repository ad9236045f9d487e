// What the attention kernels share: how arrays lie in memory, and which rows a row sees. Scores, weights and sums are
// float, whatever memory holds.
#pragma once
#include "attention_scores.h"
#include "fp8.h"

constant bool is_parted [[function_constant(4)]];  // elements of a row do not lie one after the other

constant uint QUERY_ROWS_FIRST = 32;  // queries lie as (batch, rows, heads, depth), not (batch, heads, rows, depth)
constant uint KEY_ROWS_FIRST = 64;
constant uint IS_PACKED = 128;  // the rows of a simdgroup are those of all query heads of a key head
constant uint KEEPS_REST = 256;

// How far the rows of an array lie apart, and where a head's begin.
struct Layout {
  ulong batch;
  ulong head;
  ulong row;
};

inline Layout layout_of(ulong rows, ulong heads, ulong depth, bool is_rows_first) {
  return {rows * heads * depth, is_rows_first ? depth : rows * depth, is_rows_first ? heads * depth : depth};
}

// A number of memory as float; one of 8 bits has a scale.
template <typename K>
inline float widened(K x, float) {
  return float(x);
}
inline float widened(uchar x, float scale) { return e4m3(x) * scale; }

// Rows of keys or values of one head.
template <typename K>
struct Rows {
  device const K* base;
  ulong pitch;              // from a row to the next
  device const int* table;  // of blocks; null: the rows lie one after the other
  uint block;               // rows in a block
  float scale;
  ulong block_pitch;        // from a block to the next
  uint step;                // where is_parted: elements of a part, which lie `inner` apart, and parts `outer`
  ulong inner;
  ulong outer;

  ulong offset(uint j) const {
    return table == nullptr ? j * pitch : ulong(table[j / block]) * block_pitch + j % block * pitch;
  }
  ulong element(uint d) const { return is_parted ? d / step * outer + d % step * inner : d; }
};

// n rows from `from` on as floats, one after the other. All threads of the threadgroup are here.
template <typename K>
inline void fill(threadgroup float* tile, Rows<K> rows, uint from, uint n, uint width, Lane at) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (!is_parted && rows.table == nullptr && rows.pitch == width) {  // as one row: none has an end of its own
    device const K* row = rows.base + ulong(from) * width;
    for (uint i = at.group * 32 + at.lane; i < n * width; i += at.groups * 32) {
      tile[i] = widened(row[i], rows.scale);
    }
  } else {
    for (uint j = at.group; j < n; j += at.groups) {
      device const K* row = rows.base + rows.offset(from + j);
      for (uint d = at.lane; d < width; d += 32) {
        tile[j * width + d] = widened(row[rows.element(d)], rows.scale);
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

// A part of the key range, uniform over a threadgroup whose rows are lowest to highest.
struct Span {
  uint begin;
  uint end;
  int covered_from;  // blocks inside of these two need no test of single rows
  int covered_to;

  bool is_edge(uint from, uint n) const {
    return n < BLOCK || int(from) < covered_from || int(from + n) - 1 > covered_to;
  }
};

// Rows of the other side that rows lowest to highest see: from row + low to row + high, of `count`.
inline Span span_of(int lowest, int highest, int low, int high, int count) {
  const int begin = max(0, lowest + low);
  const int end = min(count, highest + high + 1);
  return {uint(begin) / BLOCK * BLOCK, uint(max(begin / int(BLOCK) * int(BLOCK), end)), highest + low, lowest + high};
}

// The part of a span that one of several threadgroups takes, where the keys are split between them.
inline Span part_of(Span span, uint split, uint splits, uint keys) {
  const uint each = ((keys + BLOCK - 1) / BLOCK + splits - 1) / splits * BLOCK;
  span.begin = max(span.begin, split * each);
  span.end = max(span.begin, min(span.end, (split + 1) * each));
  return span;
}

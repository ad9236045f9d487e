// What products of blocks share. The function constants say what becomes of c.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant bool adds [[function_constant(0)]];      // c is added to; else it is not read
constant bool copies [[function_constant(1)]];    // out is a new matrix: what lies outside the block is copied from c
constant bool is_lower [[function_constant(2)]];  // what lies above the diagonal of the block need not be right

constant constexpr uint LANES = 32;

// Part `share` of `shares` of what lies outside the block of one matrix.
template <typename T>
inline void copy_rest(device const T* c, device T* out, long begin, uint rows, uint columns, uint whole_rows, uint pitch,
                      uint share, uint shares, uint lid, uint threads) {
  const uint row = uint(begin / pitch), column = uint(begin % pitch);
  for (uint i = share; i < whole_rows; i += shares) {
    const bool is_inside = i >= row && i < row + rows;
    device const T* from = c + long(i) * pitch;
    device T* to = out + long(i) * pitch;
    for (uint j = lid; j < (is_inside ? column : pitch); j += threads) {
      to[j] = from[j];
    }
    if (is_inside) {
      for (uint j = column + columns + lid; j < pitch; j += threads) {
        to[j] = from[j];
      }
    }
  }
}

// Element `at` of out: the sum on top of what earlier pieces gave, or of c.
template <typename T>
inline void add_sum(device const T* c, device T* out, uint at, float sum, bool is_later) {
  const float before = is_later ? float(out[at]) : adds ? float(c[at]) : 0.0f;
  out[at] = T(before + sum);
}

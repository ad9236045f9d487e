// y = x w^T,  dx = g w,  w = (q - zero) scale with 4-bit q, two in a byte: kernels/quantized.h
#include "quantized.h"

template <typename S>
inline Quantized<S> quantized(
    device const uchar* packed, device const S* scales, device const S* zeros, long width, long group_size) {
  return {packed, scales, zeros, uint(width / 2), uint(group_size / 2), uint((width + group_size - 1) / group_size)};
}

// One simdgroup a row of w and M rows of x.
template <typename T, typename S, uint M>
[[kernel]] void matmul_int4_rows(
    device const T* x [[buffer(0)]],
    device const uchar* packed [[buffer(1)]],
    device const S* scales [[buffer(2)]],
    device const S* zeros [[buffer(3)]],
    device T* y [[buffer(4)]],
    constant long& rows [[buffer(5)]],
    constant long& outs [[buffer(6)]],
    constant long& width [[buffer(7)]],
    constant long& group_size [[buffer(8)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const Quantized<S> w = quantized<S>(packed, scales, zeros, width, group_size);
  multiply_rows<T, S, 2, M>(x, w, y, group.y * long(M), rows, outs, group.x, lane);
}

// One simdgroup 32 rows of w and ROWS rows of x.
template <typename T, typename S>
[[kernel]] void matmul_int4_tile(
    device const T* x [[buffer(0)]],
    device const uchar* packed [[buffer(1)]],
    device const S* scales [[buffer(2)]],
    device const S* zeros [[buffer(3)]],
    device T* y [[buffer(4)]],
    constant long& rows [[buffer(5)]],
    constant long& outs [[buffer(6)]],
    constant long& width [[buffer(7)]],
    constant long& group_size [[buffer(8)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float tile[STEPS * LANES];
  threadgroup float sums[ROWS * LANES];
  const Quantized<S> w = quantized<S>(packed, scales, zeros, width, group_size);
  const long first = group.y * long(ROWS);
  const uint here = uint(min(long(ROWS), rows - first));
  multiply_tile<T, S, 2>(
      x + first * width, w, y + first * outs, tile, sums, here, outs, group.x * long(LANES), lane);
}

// One simdgroup 32 columns of w and ROWS rows of g.
template <typename T, typename S>
[[kernel]] void matmul_int4_tile_back(
    device const T* g [[buffer(0)]],
    device const uchar* packed [[buffer(1)]],
    device const S* scales [[buffer(2)]],
    device const S* zeros [[buffer(3)]],
    device T* dx [[buffer(4)]],
    constant long& rows [[buffer(5)]],
    constant long& outs [[buffer(6)]],
    constant long& width [[buffer(7)]],
    constant long& group_size [[buffer(8)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float tile[STEPS * LANES];
  threadgroup float sums[ROWS * LANES];
  const Quantized<S> w = quantized<S>(packed, scales, zeros, width, group_size);
  const long first = group.y * long(ROWS);
  const uint here = uint(min(long(ROWS), rows - first));
  multiply_tile_back<T, S, 2>(
      g + first * outs, w, dx + first * width, tile, sums, here, outs, group.x * LANES, lane);
}

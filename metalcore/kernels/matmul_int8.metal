// y = x w^T,  dx = g w,  w = q scale with 8-bit q: kernels/quantized.h
#include "quantized.h"

template <typename S>
inline Quantized<S> quantized(device const char* weight, device const S* scales, long width, long group_size) {
  const uint groups = uint((width + group_size - 1) / group_size);
  return {(device const uchar*)weight, scales, scales, uint(width), uint(group_size), groups};
}

// One simdgroup a row of w and M rows of x.
template <typename T, typename S, uint M>
[[kernel]] void matmul_int8_rows(
    device const T* x [[buffer(0)]],
    device const char* weight [[buffer(1)]],
    device const S* scales [[buffer(2)]],
    device T* y [[buffer(3)]],
    constant long& rows [[buffer(4)]],
    constant long& outs [[buffer(5)]],
    constant long& width [[buffer(6)]],
    constant long& group_size [[buffer(7)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const Quantized<S> w = quantized<S>(weight, scales, width, group_size);
  multiply_rows<T, S, 1, M>(x, w, y, group.y * long(M), rows, outs, group.x, lane);
}

// One simdgroup 32 rows of w and ROWS rows of x.
template <typename T, typename S>
[[kernel]] void matmul_int8_tile(
    device const T* x [[buffer(0)]],
    device const char* weight [[buffer(1)]],
    device const S* scales [[buffer(2)]],
    device T* y [[buffer(3)]],
    constant long& rows [[buffer(4)]],
    constant long& outs [[buffer(5)]],
    constant long& width [[buffer(6)]],
    constant long& group_size [[buffer(7)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float tile[STEPS * LANES];
  threadgroup float sums[ROWS * LANES];
  const Quantized<S> w = quantized<S>(weight, scales, width, group_size);
  const long first = group.y * long(ROWS);
  const uint here = uint(min(long(ROWS), rows - first));
  multiply_tile<T, S, 1>(
      x + first * width, w, y + first * outs, tile, sums, here, outs, group.x * long(LANES), lane);
}

// One simdgroup 32 columns of w and ROWS rows of g.
template <typename T, typename S>
[[kernel]] void matmul_int8_tile_back(
    device const T* g [[buffer(0)]],
    device const char* weight [[buffer(1)]],
    device const S* scales [[buffer(2)]],
    device T* dx [[buffer(3)]],
    constant long& rows [[buffer(4)]],
    constant long& outs [[buffer(5)]],
    constant long& width [[buffer(6)]],
    constant long& group_size [[buffer(7)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float tile[STEPS * LANES];
  threadgroup float sums[ROWS * LANES];
  const Quantized<S> w = quantized<S>(weight, scales, width, group_size);
  const long first = group.y * long(ROWS);
  const uint here = uint(min(long(ROWS), rows - first));
  multiply_tile_back<T, S, 1>(
      g + first * outs, w, dx + first * width, tile, sums, here, outs, group.x * LANES, lane);
}

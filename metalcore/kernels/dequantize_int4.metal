// w = (q - zero) scale, with 4-bit q, two in a byte, the low half first.
#include "quantized.h"

// One simdgroup a row.
template <typename S>
[[kernel]] void dequantize_int4(
    device const uchar* packed [[buffer(0)]],
    device const S* scales [[buffer(1)]],
    device const S* zeros [[buffer(2)]],
    device S* weight [[buffer(3)]],
    constant long& width [[buffer(4)]],
    constant long& group_size [[buffer(5)]],
    uint row [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint groups = uint((width + group_size - 1) / group_size);
  packed += row * (width / 2);
  weight += row * width;
  for (uint group = 0; group < groups; group++) {
    const float scale = float(scales[row * long(groups) + group]);
    const float zero = float(zeros[row * long(groups) + group]);
    const uint first = group * uint(group_size) / 2;
    const uint last = uint(min((group + 1) * group_size, width)) / 2;
    for (uint i = first + lane; i < last; i += 32) {
      const uchar byte = packed[i];
      weight[2 * i] = S((code_of<2>(byte, 0) - zero) * scale);
      weight[2 * i + 1] = S((code_of<2>(byte, 1) - zero) * scale);
    }
  }
}

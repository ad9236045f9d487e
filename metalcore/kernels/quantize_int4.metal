// A row of weights, by groups: q = clamp(round(w / scale) + zero, 0, 15), two in a byte, the low half first.
//   asymmetric: scale = (max(w, 0) - min(w, 0)) / 15,  zero = round(-min(w, 0) / scale)
//   symmetric:  scale = max |w| / 7,  zero = 8
#include <metal_stdlib>
using namespace metal;

constant bool symmetric [[function_constant(0)]];

inline uchar code_from(float w, float scale, float zero) { return uchar(clamp(rint(w / scale) + zero, 0.0f, 15.0f)); }

// One simdgroup a row.
template <typename T>
[[kernel]] void quantize_int4(
    device const T* weight [[buffer(0)]],
    device uchar* packed [[buffer(1)]],
    device T* scales [[buffer(2)]],
    device T* zeros [[buffer(3)]],
    constant long& width [[buffer(4)]],
    constant long& group_size [[buffer(5)]],
    uint row [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint groups = uint((width + group_size - 1) / group_size);
  weight += row * width;
  packed += row * (width / 2);
  scales += row * long(groups);
  zeros += row * long(groups);
  for (uint group = 0; group < groups; group++) {
    const uint first = group * uint(group_size);
    const uint last = uint(min(long(first) + group_size, width));
    float low = 0.0f, high = 0.0f;
    for (uint i = first + lane; i < last; i += 32) {
      const float w = float(weight[i]);
      low = min(low, w);
      high = max(high, w);
    }
    low = simd_min(low);
    high = simd_max(high);
    const T rounded = T(symmetric ? max(high, -low) / 7.0f : (high - low) / 15.0f);
    const float scale = float(rounded) == 0.0f ? 1.0f : float(rounded);
    const float zero = symmetric ? 8.0f : clamp(rint(-low / scale), 0.0f, 15.0f);
    for (uint i = first / 2 + lane; i < last / 2; i += 32) {
      const uchar left = code_from(float(weight[2 * i]), scale, zero);
      const uchar right = code_from(float(weight[2 * i + 1]), scale, zero);
      packed[i] = left | (right << 4);
    }
    if (lane == 0) {
      scales[group] = T(scale);
      zeros[group] = T(zero);
    }
  }
}

// Normalised integers to floats and back. Packing clamps, scales and rounds to the nearest, ties to even.
#pragma once

#include "metal_common.h"
#include "metal_math.h"

__mc_begin

namespace metal {

// One component: an unsigned one of `bits` bits as 0 .. 1, a signed one as -1 .. 1, where the least integer is also -1.
template <int Bits>
constexpr float __mc_from_unorm(uint v) {
  return float(v & ((1u << Bits) - 1)) / float((1u << Bits) - 1);
}
template <int Bits>
constexpr float __mc_from_snorm(uint v) {
  return __builtin_fmaximum_numf(float(int(v << (32 - Bits)) >> (32 - Bits)) / float((1u << (Bits - 1)) - 1), -1.0f);
}
template <int Bits>
constexpr uint __mc_to_unorm(float x) {
  return uint(__builtin_rintf(__mc_clamp(x, float(0), float(1)) * float((1u << Bits) - 1)));
}
template <int Bits>
constexpr uint __mc_to_snorm(float x) {
  // A NaN becomes 0.
  float v = x == x ? __mc_clamp(x, float(-1), float(1)) : 0;
  return uint(int(__builtin_rintf(v * float((1u << (Bits - 1)) - 1)))) & ((1u << Bits) - 1);
}

// The sRGB curve; alpha stays linear.
inline float __mc_from_srgb(float c) {
  return c <= float(0.04045) ? c / float(12.92) : precise::powr((c + float(0.055)) / float(1.055), float(2.4));
}
inline float __mc_to_srgb(float c) {
  c = __mc_clamp(c, float(0), float(1));
  return c < float(0.0031308) ? float(12.92) * c : float(1.055) * precise::powr(c, 1 / float(2.4)) - float(0.055);
}

inline float4 unpack_unorm4x8_to_float(uint v) {
  return float4(__mc_from_unorm<8>(v), __mc_from_unorm<8>(v >> 8), __mc_from_unorm<8>(v >> 16), __mc_from_unorm<8>(v >> 24));
}
inline float4 unpack_snorm4x8_to_float(uint v) {
  return float4(__mc_from_snorm<8>(v), __mc_from_snorm<8>(v >> 8), __mc_from_snorm<8>(v >> 16), __mc_from_snorm<8>(v >> 24));
}
inline float4 unpack_unorm4x8_srgb_to_float(uint v) {
  float4 c = unpack_unorm4x8_to_float(v);
  return float4(__mc_from_srgb(c.x), __mc_from_srgb(c.y), __mc_from_srgb(c.z), c.w);
}
inline float2 unpack_unorm2x16_to_float(uint v) { return float2(__mc_from_unorm<16>(v), __mc_from_unorm<16>(v >> 16)); }
inline float2 unpack_snorm2x16_to_float(uint v) { return float2(__mc_from_snorm<16>(v), __mc_from_snorm<16>(v >> 16)); }
inline float4 unpack_unorm10a2_to_float(uint v) {
  return float4(__mc_from_unorm<10>(v), __mc_from_unorm<10>(v >> 10), __mc_from_unorm<10>(v >> 20), __mc_from_unorm<2>(v >> 30));
}
// Red stands in the upper five bits.
inline float3 unpack_unorm565_to_float(ushort v) {
  return float3(__mc_from_unorm<5>(uint(v) >> 11), __mc_from_unorm<6>(uint(v) >> 5), __mc_from_unorm<5>(v));
}

inline uint pack_float_to_unorm4x8(float4 c) {
  return __mc_to_unorm<8>(c.x) | __mc_to_unorm<8>(c.y) << 8 | __mc_to_unorm<8>(c.z) << 16 | __mc_to_unorm<8>(c.w) << 24;
}
inline uint pack_float_to_snorm4x8(float4 c) {
  return __mc_to_snorm<8>(c.x) | __mc_to_snorm<8>(c.y) << 8 | __mc_to_snorm<8>(c.z) << 16 | __mc_to_snorm<8>(c.w) << 24;
}
inline uint pack_float_to_srgb_unorm4x8(float4 c) {
  return pack_float_to_unorm4x8(float4(__mc_to_srgb(c.x), __mc_to_srgb(c.y), __mc_to_srgb(c.z), c.w));
}
inline uint pack_float_to_unorm2x16(float2 c) { return __mc_to_unorm<16>(c.x) | __mc_to_unorm<16>(c.y) << 16; }
inline uint pack_float_to_snorm2x16(float2 c) { return __mc_to_snorm<16>(c.x) | __mc_to_snorm<16>(c.y) << 16; }
inline uint pack_float_to_unorm10a2(float4 c) {
  return __mc_to_unorm<10>(c.x) | __mc_to_unorm<10>(c.y) << 10 | __mc_to_unorm<10>(c.z) << 20 | __mc_to_unorm<2>(c.w) << 30;
}
inline ushort pack_float_to_unorm565(float3 c) {
  return ushort(__mc_to_unorm<5>(c.x) << 11 | __mc_to_unorm<6>(c.y) << 5 | __mc_to_unorm<5>(c.z));
}

// The half forms: the same, rounded once.
inline half4 unpack_unorm4x8_to_half(uint v) { return half4(unpack_unorm4x8_to_float(v)); }
inline half4 unpack_snorm4x8_to_half(uint v) { return half4(unpack_snorm4x8_to_float(v)); }
inline half4 unpack_unorm4x8_srgb_to_half(uint v) { return half4(unpack_unorm4x8_srgb_to_float(v)); }
inline half2 unpack_unorm2x16_to_half(uint v) { return half2(unpack_unorm2x16_to_float(v)); }
inline half2 unpack_snorm2x16_to_half(uint v) { return half2(unpack_snorm2x16_to_float(v)); }
inline half4 unpack_unorm10a2_to_half(uint v) { return half4(unpack_unorm10a2_to_float(v)); }
inline half3 unpack_unorm565_to_half(ushort v) { return half3(unpack_unorm565_to_float(v)); }
inline uint pack_half_to_unorm4x8(half4 c) { return pack_float_to_unorm4x8(float4(c)); }
inline uint pack_half_to_snorm4x8(half4 c) { return pack_float_to_snorm4x8(float4(c)); }
inline uint pack_half_to_srgb_unorm4x8(half4 c) { return pack_float_to_srgb_unorm4x8(float4(c)); }
inline uint pack_half_to_unorm2x16(half2 c) { return pack_float_to_unorm2x16(float2(c)); }
inline uint pack_half_to_snorm2x16(half2 c) { return pack_float_to_snorm2x16(float2(c)); }
inline uint pack_half_to_unorm10a2(half4 c) { return pack_float_to_unorm10a2(float4(c)); }
inline ushort pack_half_to_unorm565(half3 c) { return pack_float_to_unorm565(float3(c)); }

}  // namespace metal

__mc_end

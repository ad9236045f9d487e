// e4m3: a sign, 4 bits of exponent (bias 7), 3 bits of mantissa. 448 is the largest number, there is no infinity, and
// the codes 0x7f and 0xff are NaN. Both ways have no branch.
#pragma once
#include <metal_stdlib>
using namespace metal;

// The 7 bits of a number stand in a half at the same places, with the exponent counted from 15 instead of 7.
inline float e4m3(uchar bits) {
  const ushort magnitude = ushort(bits & 0x7f);
  const ushort nan = magnitude == 0x7f ? 0x7e00 : 0;
  const ushort sign = ushort((bits & 0x80) << 8);
  return float(as_type<half>(ushort(sign | nan | ushort(magnitude << 7)))) * 256.0f;
}

// The nearest number, of two the even one; beyond 448, and for infinity, 448. NaN stays NaN. Tests are made on the
// bits, as fast math may take it that there is no NaN. A template, so that where float is read as double a file that
// only decodes still compiles.
template <typename F>
inline uchar to_e4m3(F x) {
  const uint bits = as_type<uint>(x);
  const uint magnitude = bits & 0x7fffffff;
  const uint kept = min(magnitude, 0x43e00000u);  // 448
  const uint odd = (kept >> 20) & 1;
  const uint normal = ((kept + 0x7ffff + odd) >> 20) - (120 << 3);
  const uint tiny = uint(rint(as_type<F>(kept) * 512.0f));  // below 2^-6: multiples of 2^-9
  const uint code = kept < 0x3c800000u ? tiny : normal;
  return uchar((bits >> 24 & 0x80) | (magnitude > 0x7f800000u ? 0x7f : code));
}

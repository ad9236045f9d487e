// What eigenvalue iterations share: plane rotations and the power of two that brings a matrix near 1.
#pragma once
#include <metal_stdlib>
using namespace metal;

// c and s with c g + s f = r and c f - s g = 0, c^2 + s^2 = 1 to the last bits. Squares of small numbers would lose
// digits below the least normal number, and with them the rotation its length: those are scaled up first.
inline void rotation(float g, float f, thread float& c, thread float& s, thread float& r) {
  constexpr float least = numeric_limits<float>::min(), eps = numeric_limits<float>::epsilon();
  const float small = sqrt(least) / eps, up = eps * eps / least;
  const float largest = max(abs(g), abs(f));
  const float scale = largest < small ? up : 1.0f;
  const float x = g * scale, y = f * scale;
  const float length = sqrt(x * x + y * y);
  const bool is_zero = largest < least;
  const float inverse = 1 / (is_zero ? 1.0f : length);
  c = is_zero ? 1.0f : x * inverse;
  s = is_zero ? 0.0f : y * inverse;
  r = is_zero ? 0.0f : length / scale;
}

// A power of two that brings `largest` to [0.5, 1); 1 for 0. A number that is not finite has none: see is_number.
inline float scale_for(float largest) {
  int exponent = 0;
  frexp(largest, exponent);
  const int most = numeric_limits<float>::max_exponent - 2;
  return largest > 0 ? ldexp(1.0f, clamp(-exponent, -most, most)) : 1.0f;
}

inline bool is_number(float largest) {
  return largest <= numeric_limits<float>::max();  // false for NaN too
}

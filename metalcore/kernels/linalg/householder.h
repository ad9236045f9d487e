// Householder reflectors H = I - tau v v^T with v_0 = 1, as LAPACK's larfg makes them: H takes a vector (alpha, x) to
// (beta, 0), where beta has the sign that alpha has not, and H = I where x is zero.
#pragma once
#include <metal_stdlib>
using namespace metal;

// Powers of two, so that nothing is rounded; they serve double too, where the engine reads float as it.
constant constexpr float LARGE_COLUMN = 0x1p40f, SMALL_COLUMN = 0x1p-20f, TINY_COLUMN = 0x1p-70f;
constant constexpr float LARGE_MATRIX = 0x1p80f, SMALL_MATRIX = 0x1p-80f;

// What a vector is multiplied by so that the squares of its elements, the largest of which is `most`, add up.
inline float column_scale(float most) {
  const float up = most < TINY_COLUMN ? 0x1p110f : (most < SMALL_COLUMN ? 0x1p50f : 1.0f);
  return most > LARGE_COLUMN ? 0x1p-80f : up;
}

// What a matrix is multiplied by so that products of its elements with numbers below 1 add up.
inline float matrix_scale(float most) {
  return most > LARGE_MATRIX ? 0x1p-46f : (most < SMALL_MATRIX ? 0x1p46f : 1.0f);
}

struct Reflector {
  float beta;
  float tau;
  float inverse;  // v = x * inverse
};

// From alpha and the sum of the squares of x.
inline Reflector reflector(float alpha, float squares) {
  const float norm = sqrt(alpha * alpha + squares);
  // NaN too, and infinity, beside which scaled squares vanish.
  const bool is_needed = squares != 0 || !(fabs(alpha) <= numeric_limits<float>::max());
  const float beta = is_needed ? (alpha < 0 ? norm : -norm) : alpha;
  const float away = alpha - beta;
  return {beta, is_needed ? -away / beta : 0.0f, is_needed ? 1 / away : 0.0f};
}

// One-sided Jacobi (Hestenes): pairs of columns are turned until all are orthogonal to each other; their norms are the
// singular values. A column is `scale * c`, with a power of two as its scale and the norm of c near 1, so that no product
// of two columns overflows or underflows, however far apart their norms are: small singular values of graded matrices
// keep their digits (Demmel and Veselic, SIAM J. Matrix Anal. Appl. 13, 1992).
#pragma once
#include <metal_stdlib>
using namespace metal;

constant constexpr int SVD_SWEEPS = 30;
constant constexpr uint SVD_STRICT = 12;
constant constexpr int SVD_NOT_FINITE = -4;  // in info, as LAPACK counts the arguments of gesdd

// The power of two that brings `most` to 1 ... 2; 1 where it is zero.
inline float svd_power(float most) {
  const int limit = numeric_limits<float>::max_exponent - 8;
  return most > 0 ? ldexp(1.0f, -clamp(ilogb(most), -limit, limit)) : 1.0f;
}

// What a column is multiplied by for its norm to be near 1; its scale changes with it. What is left of columns that depend
// on each other loses all its digits in every step: where no scale could hold it any more it is 0, and so is the factor.
inline float svd_rescaling(float most, thread float& scale) {
  const float power = svd_power(most);
  const bool is_nothing = scale < power * numeric_limits<float>::min();
  scale = is_nothing ? scale : scale / power;
  return is_nothing ? 0.0f : power;
}

// Sums of squares outside of this range ask for another scale.
inline bool svd_is_odd(float square) { return !(square >= 0x1p-20f && square <= 0x1p20f); }

// |cos| of the angle between two columns that counts as orthogonal, squared. The roundings of a turn may leave a few short
// columns just above it for ever: after some sweeps four times the angle will do.
inline float svd_tolerance(uint length, uint sweep) {
  const float eps = numeric_limits<float>::epsilon();
  return (sweep < SVD_STRICT ? 0.25f : 4.0f) * eps * eps * float(max(length, 4u));
}

// How to turn columns a and b:  a' = a - less a - for_a b,  b' = b - less b + for_b a  for their stored parts, and the
// same with `both` for the columns of the product of all turns. `less` is 1 - cosine: a rounded cosine would let the
// norms grow a little in every turn by a small angle.
struct Turn {
  float less, for_a, for_b, both;
  float square_a, square_b;  // of the stored parts, afterwards
};

// `dot` of the stored parts, their squares and scales, and 1 over these. No turn where it is not wanted.
inline Turn svd_turn(float dot, float square_a, float square_b, float scale_a, float scale_b, float inverse_a,
                     float inverse_b, bool is_wanted) {
  const bool is_a = scale_a >= scale_b;
  const float ratio = min(scale_a, scale_b) * min(inverse_a, inverse_b), squared = ratio * ratio;
  const float part_a = is_a ? 1.0f : squared, part_b = is_a ? squared : 1.0f;
  const float product = dot * ratio, gap = square_b * part_b - square_a * part_a;
  const float size = fabs(gap) + sqrt(gap * gap + 4 * product * product);
  float s = is_wanted ? 2 * dot / size : 0.0f;
  s = gap < 0 ? -s : s;
  const float tangent = s * ratio, root = sqrt(1 + tangent * tangent);
  const float share = 1 / (root * (1 + root)), cosine = share * (1 + root), sine = cosine * tangent;
  Turn turn;
  turn.less = sine * tangent * (share * root);  // tan of half the angle is tangent / (1 + root)
  turn.for_a = cosine * s * part_b;
  turn.for_b = cosine * s * part_a;
  turn.both = sine;
  const float least = numeric_limits<float>::epsilon() * numeric_limits<float>::epsilon();
  turn.square_a = max(square_a - s * part_b * dot, least * square_a);
  turn.square_b = max(square_b + s * part_a * dot, least * square_b);
  return turn;
}

// x and y become what a turn makes of them.
inline void svd_apply(thread float& x, thread float& y, float less, float for_x, float for_y) {
  const float a = x, b = y;
  x = fma(-for_x, b, fma(-less, a, a));
  y = fma(for_y, a, fma(-less, b, b));
}

// What every math file uses: bits, selects, and the floating-point rules they are written under.
//
// Each math*.h switches contraction, reassociation and every other fast-math licence off for its own text
// (`float_control` restores the program's rules at the end), so that error-free steps stay error-free in all math
// modes. Fused operations are written as fma_. Everything is scalar and branch-free, because the lockstep pass turns
// a select into a blend and a branch into a masked region.
#pragma once

#include "metal_types.h"

#define __MC_MATH static inline __attribute__((always_inline, nodebug))

#pragma float_control(push)
#pragma float_control(precise, on)
#pragma clang fp contract(off)

namespace __mc_math {

// The layout of a float.
#ifdef METALCORE_DOUBLE
typedef unsigned long word;
typedef long signed_word;
constexpr int mantissa_bits = 52, largest_exponent = 1023;
constexpr float least_normal = 0x1p-1022, least_positive = 0x1p-1074, largest_below_one = 0x1.fffffffffffffp-1;
#else
typedef unsigned word;
typedef int signed_word;
constexpr int mantissa_bits = 23, largest_exponent = 127;
constexpr float least_normal = 0x1p-126f, least_positive = 0x1p-149f, largest_below_one = 0x1.fffffep-1f;
#endif

__MC_MATH word bits(float x) { return __builtin_bit_cast(word, x); }
__MC_MATH signed_word ibits(float x) { return __builtin_bit_cast(signed_word, x); }
__MC_MATH float from_bits(word u) { return __builtin_bit_cast(float, u); }
__MC_MATH float from_ibits(signed_word i) { return __builtin_bit_cast(float, i); }

__MC_MATH float fma_(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__MC_MATH float fabs_(float x) { return __builtin_fabsf(x); }
__MC_MATH float sqrt_(float x) { return __builtin_elementwise_sqrt(x); }
__MC_MATH float copysign_(float x, float s) { return __builtin_copysignf(x, s); }

// A polynomial in x by fused steps, the coefficient of the highest power first.
template <typename... C>
__MC_MATH float horner(float x, float p, C... coefficients) {
  ((p = fma_(p, x, coefficients)), ...);
  return p;
}

// One vector instruction each. Both keep a NaN in x.
__MC_MATH float at_most(float x, float limit) { return x > limit ? limit : x; }
__MC_MATH float at_least(float x, float limit) { return x < limit ? limit : x; }

// Both sides are computed and one is chosen: a blend. A ternary would become a branch where a side is an expression.
template <typename T>
__MC_MATH T choose(bool condition, T yes, T no) {
  return condition ? yes : no;
}

__MC_MATH float inf_() { return __builtin_inff(); }
__MC_MATH float nan_() { return __builtin_nanf(""); }
__MC_MATH bool is_nan(float x) { return x != x; }

// 1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits.
constexpr float round_magic = 0x1.8p23f;

}  // namespace __mc_math

#pragma float_control(pop)

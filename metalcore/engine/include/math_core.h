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

__MC_MATH unsigned bits(float x) { return __builtin_bit_cast(unsigned, x); }
__MC_MATH int ibits(float x) { return __builtin_bit_cast(int, x); }
__MC_MATH float from_bits(unsigned u) { return __builtin_bit_cast(float, u); }
__MC_MATH float from_ibits(int i) { return __builtin_bit_cast(float, i); }

__MC_MATH float fma_(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__MC_MATH float fabs_(float x) { return __builtin_fabsf(x); }
__MC_MATH float sqrt_(float x) { return __builtin_elementwise_sqrt(x); }
__MC_MATH float copysign_(float x, float s) { return __builtin_copysignf(x, s); }

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

// x with its sign flipped where s is negative (s = -0 included).
__MC_MATH float flip_sign(float x, float s) { return from_bits(bits(x) ^ (bits(s) & 0x80000000u)); }

// 1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits.
constexpr float round_magic = 0x1.8p23f;

}  // namespace __mc_math

#pragma float_control(pop)

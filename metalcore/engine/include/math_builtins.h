// The `__metal_*` builtins that real headers call to add their own overloads; the last argument chooses fast or precise.
#pragma once

#include "math_api.h"

#define __MC_BUILTIN1(NAME) \
  __MC_MATH float __metal_##NAME(float x, int fast) { return fast ? metal::fast::NAME(x) : metal::precise::NAME(x); }
#define __MC_BUILTIN2(NAME)                                       \
  __MC_MATH float __metal_##NAME(float x, float y, int fast) {    \
    return fast ? metal::fast::NAME(x, y) : metal::precise::NAME(x, y); \
  }
#define __MC_BUILTIN3(NAME)                                             \
  __MC_MATH float __metal_##NAME(float x, float y, float z, int fast) { \
    return fast ? metal::fast::NAME(x, y, z) : metal::precise::NAME(x, y, z); \
  }
__MC_BUILTIN1(fabs)
__MC_BUILTIN1(acos)
__MC_BUILTIN1(acosh)
__MC_BUILTIN1(asin)
__MC_BUILTIN1(asinh)
__MC_BUILTIN1(atan)
__MC_BUILTIN1(atanh)
__MC_BUILTIN1(ceil)
__MC_BUILTIN1(cos)
__MC_BUILTIN1(cosh)
__MC_BUILTIN1(cospi)
__MC_BUILTIN1(exp)
__MC_BUILTIN1(exp10)
__MC_BUILTIN1(exp2)
__MC_BUILTIN1(floor)
__MC_BUILTIN1(fract)
__MC_BUILTIN1(log)
__MC_BUILTIN1(log10)
__MC_BUILTIN1(log2)
__MC_BUILTIN1(rint)
__MC_BUILTIN1(round)
__MC_BUILTIN1(rsqrt)
__MC_BUILTIN1(sin)
__MC_BUILTIN1(sinh)
__MC_BUILTIN1(sinpi)
__MC_BUILTIN1(sqrt)
__MC_BUILTIN1(tan)
__MC_BUILTIN1(tanh)
__MC_BUILTIN1(tanpi)
__MC_BUILTIN1(trunc)
__MC_BUILTIN2(atan2)
__MC_BUILTIN2(divide)
__MC_BUILTIN2(fdim)
__MC_BUILTIN2(fmax)
__MC_BUILTIN2(fmin)
__MC_BUILTIN2(fmod)
__MC_BUILTIN2(pow)
__MC_BUILTIN2(powr)
__MC_BUILTIN2(copysign)
__MC_BUILTIN3(fmax3)
__MC_BUILTIN3(fmin3)
__MC_BUILTIN3(fmedian3)
#undef __MC_BUILTIN1
#undef __MC_BUILTIN2
#undef __MC_BUILTIN3

__MC_MATH float __metal_fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__MC_MATH float __metal_nextafter(float x, float y) { return metal::precise::nextafter(x, y); }
__MC_MATH float __metal_ldexp(float x, int k, int) { return metal::precise::ldexp(x, k); }
__MC_MATH float __metal_frexp(float x, int* e) { return metal::precise::frexp(x, *e); }
__MC_MATH float __metal_modf(float x, float* whole, int) { return metal::precise::modf(x, *whole); }

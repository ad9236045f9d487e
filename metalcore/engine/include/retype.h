// float read as double, where METALCORE_DOUBLE asks for it: for these headers and for the user's text behind them.
// The builtins that these headers call on floats follow it. The user's literals lose their `f` in frontend/literals.py.
#pragma once

#ifdef METALCORE_DOUBLE
#define float double
#define __builtin_ceilf __builtin_ceil
#define __builtin_copysignf __builtin_copysign
#define __builtin_fabsf __builtin_fabs
#define __builtin_floorf __builtin_floor
#define __builtin_fmaf __builtin_fma
#define __builtin_fmaximum_numf __builtin_fmaximum_num
#define __builtin_fminimum_numf __builtin_fminimum_num
#define __builtin_inff __builtin_inf
#define __builtin_nanf __builtin_nan
#define __builtin_rintf __builtin_rint
#define __builtin_roundf __builtin_round
#define __builtin_sqrtf __builtin_sqrt
#define __builtin_truncf __builtin_trunc
#endif

// Macros of metal_stdlib, and no declarations: the front end reads this file alone when it preprocesses a source.
#pragma once

#ifndef __METAL__
#define __METAL__ 1
#endif
#ifndef __METAL_VERSION__
#define __METAL_VERSION__ 320
#endif
#ifndef __HAVE_BFLOAT__
#define __HAVE_BFLOAT__ 1
#endif

#define METAL_FUNC inline __attribute__((__always_inline__))
#define METAL_CONST_ARG(x)
#define METAL_ASM(...) __asm__(__VA_ARGS__)

// The last argument of the `__metal_*` math builtins.
#define __METAL_PRECISE_MATH__ 0
#define __METAL_FAST_MATH__ 1
#ifndef __METAL_MAYBE_FAST_MATH__
#define __METAL_MAYBE_FAST_MATH__ __METAL_PRECISE_MATH__
#endif

#define NAN __builtin_nanf("")
#define INFINITY __builtin_inff()
#define HUGE_VALF __builtin_inff()
#define HUGE_VALH ((half)__builtin_inff())
#define MAXFLOAT 0x1.fffffep127f
#define MAXHALF ((half)65504.0f)
#define MAXBFLOAT ((bfloat)0x1.fep127f)
#define FP_NAN 0
#define FP_INFINITE 1
#define FP_ZERO 2
#define FP_SUBNORMAL 3
#define FP_NORMAL 4

#define M_E_F 2.7182818284590450908f
#define M_LOG2E_F 1.442695040888963387f
#define M_LOG10E_F 0.43429448190325181667f
#define M_LN2_F 0.69314718055994528623f
#define M_LN10_F 2.3025850929940459011f
#define M_PI_F 3.141592653589793116f
#define M_PI_2_F 1.570796326794896558f
#define M_PI_4_F 0.785398163397448279f
#define M_1_PI_F 0.31830988618379069122f
#define M_2_PI_F 0.63661977236758138243f
#define M_2_SQRTPI_F 1.1283791670955125586f
#define M_SQRT2_F 1.4142135623730951455f
#define M_SQRT1_2_F 0.70710678118654757274f
#define M_E_H ((half)2.7182818284590450908f)
#define M_LOG2E_H ((half)1.442695040888963387f)
#define M_LOG10E_H ((half)0.43429448190325181667f)
#define M_LN2_H ((half)0.69314718055994528623f)
#define M_LN10_H ((half)2.3025850929940459011f)
#define M_PI_H ((half)3.141592653589793116f)
#define M_PI_2_H ((half)1.570796326794896558f)
#define M_PI_4_H ((half)0.785398163397448279f)
#define M_1_PI_H ((half)0.31830988618379069122f)
#define M_2_PI_H ((half)0.63661977236758138243f)
#define M_2_SQRTPI_H ((half)1.1283791670955125586f)
#define M_SQRT2_H ((half)1.4142135623730951455f)
#define M_SQRT1_2_H ((half)0.70710678118654757274f)
#define M_E_BF ((bfloat)2.7182818284590450908f)
#define M_LOG2E_BF ((bfloat)1.442695040888963387f)
#define M_LOG10E_BF ((bfloat)0.43429448190325181667f)
#define M_LN2_BF ((bfloat)0.69314718055994528623f)
#define M_LN10_BF ((bfloat)2.3025850929940459011f)
#define M_PI_BF ((bfloat)3.141592653589793116f)
#define M_PI_2_BF ((bfloat)1.570796326794896558f)
#define M_PI_4_BF ((bfloat)0.785398163397448279f)
#define M_1_PI_BF ((bfloat)0.31830988618379069122f)
#define M_2_PI_BF ((bfloat)0.63661977236758138243f)
#define M_2_SQRTPI_BF ((bfloat)1.1283791670955125586f)
#define M_SQRT2_BF ((bfloat)1.4142135623730951455f)
#define M_SQRT1_2_BF ((bfloat)0.70710678118654757274f)

#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295u
#define LONG_MIN (-9223372036854775807L - 1)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615ul
#define INT8_MIN SCHAR_MIN
#define INT8_MAX SCHAR_MAX
#define UINT8_MAX UCHAR_MAX
#define INT16_MIN SHRT_MIN
#define INT16_MAX SHRT_MAX
#define UINT16_MAX USHRT_MAX
#define INT32_MIN INT_MIN
#define INT32_MAX INT_MAX
#define UINT32_MAX UINT_MAX
#define INT64_MIN LONG_MIN
#define INT64_MAX LONG_MAX
#define UINT64_MAX ULONG_MAX
#define SIZE_MAX ULONG_MAX
#define PTRDIFF_MIN LONG_MIN
#define PTRDIFF_MAX LONG_MAX

#define FLT_RADIX 2
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MIN_EXP (-125)
#define FLT_MIN_10_EXP (-37)
#define FLT_MAX_EXP 128
#define FLT_MAX_10_EXP 38
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define FLT_EPSILON 0x1.0p-23f
#define HALF_DIG 3
#define HALF_MANT_DIG 11
#define HALF_MIN_EXP (-13)
#define HALF_MIN_10_EXP (-4)
#define HALF_MAX_EXP 16
#define HALF_MAX_10_EXP 4
#define HALF_MAX ((half)65504.0f)
#define HALF_MIN ((half)0x1.0p-14f)
#define HALF_EPSILON ((half)0x1.0p-10f)

// The constants of Metal's math header.
#pragma once

#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
#ifndef MAXFLOAT
#define MAXFLOAT 0x1.fffffep+127f
#endif
#ifndef MAXHALF
#define MAXHALF (static_cast<half>(0x1.ffcp+15f))
#endif
#ifndef HUGE_VALF
#define HUGE_VALF __builtin_inff()
#endif
#ifndef HUGE_VALH
#define HUGE_VALH (static_cast<half>(__builtin_inff()))
#endif
#ifndef FP_ILOGB0
#define FP_ILOGB0 (-2147483647 - 1)
#endif
#ifndef FP_ILOGBNAN
#define FP_ILOGBNAN 2147483647
#endif
#ifndef M_PI_F
#define M_E_F 2.718281828459045f
#define M_LOG2E_F 1.4426950408889634f
#define M_LOG10E_F 0.43429448190325176f
#define M_LN2_F 0.6931471805599453f
#define M_LN10_F 2.302585092994046f
#define M_PI_F 3.141592653589793f
#define M_PI_2_F 1.5707963267948966f
#define M_PI_4_F 0.7853981633974483f
#define M_1_PI_F 0.3183098861837907f
#define M_2_PI_F 0.6366197723675814f
#define M_2_SQRTPI_F 1.1283791670955126f
#define M_SQRT2_F 1.4142135623730951f
#define M_SQRT1_2_F 0.7071067811865476f
#define M_E_H (static_cast<half>(M_E_F))
#define M_LOG2E_H (static_cast<half>(M_LOG2E_F))
#define M_LOG10E_H (static_cast<half>(M_LOG10E_F))
#define M_LN2_H (static_cast<half>(M_LN2_F))
#define M_LN10_H (static_cast<half>(M_LN10_F))
#define M_PI_H (static_cast<half>(M_PI_F))
#define M_PI_2_H (static_cast<half>(M_PI_2_F))
#define M_PI_4_H (static_cast<half>(M_PI_4_F))
#define M_1_PI_H (static_cast<half>(M_1_PI_F))
#define M_2_PI_H (static_cast<half>(M_2_PI_F))
#define M_2_SQRTPI_H (static_cast<half>(M_2_SQRTPI_F))
#define M_SQRT2_H (static_cast<half>(M_SQRT2_F))
#define M_SQRT1_2_H (static_cast<half>(M_SQRT1_2_F))
#endif

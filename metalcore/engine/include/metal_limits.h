// numeric_limits of every scalar type.
#pragma once

#include "metal_types.h"

__mc_begin

namespace metal {

enum float_round_style {
  round_indeterminate = -1,
  round_toward_zero = 0,
  round_to_nearest = 1,
  round_toward_infinity = 2,
  round_toward_neg_infinity = 3
};
enum float_denorm_style { denorm_indeterminate = -1, denorm_absent = 0, denorm_present = 1 };

// What every member is for a type that has no limits; MLX and PyTorch specialise this name, so it must exist.
template <typename T>
struct _numeric_limits_impl {
  static constexpr bool is_specialized = false, is_signed = false, is_integer = false, is_exact = false, is_bounded = false, is_modulo = false;
  static constexpr bool has_infinity = false, has_quiet_NaN = false, has_signaling_NaN = false, has_denorm_loss = false, is_iec559 = false;
  static constexpr bool traps = false, tinyness_before = false;
  static constexpr float_denorm_style has_denorm = denorm_absent;
  static constexpr float_round_style round_style = round_toward_zero;
  static constexpr int digits = 0, digits10 = 0, max_digits10 = 0, radix = 0;
  static constexpr int min_exponent = 0, min_exponent10 = 0, max_exponent = 0, max_exponent10 = 0;
  static constexpr T min() { return T(); }
  static constexpr T max() { return T(); }
  static constexpr T lowest() { return T(); }
  static constexpr T epsilon() { return T(); }
  static constexpr T round_error() { return T(); }
  static constexpr T infinity() { return T(); }
  static constexpr T quiet_NaN() { return T(); }
  static constexpr T signaling_NaN() { return T(); }
  static constexpr T denorm_min() { return T(); }
};

#define __MC_INTEGER_LIMITS(T, low, high, bits, tens)                                                                       \
  template <>                                                                                                               \
  struct _numeric_limits_impl<T> {                                                                                          \
    static constexpr bool is_specialized = true, is_signed = T(-1) < T(0), is_integer = true, is_exact = true;              \
    static constexpr bool is_bounded = true, is_modulo = !is_signed, has_infinity = false, has_quiet_NaN = false;           \
    static constexpr bool has_signaling_NaN = false, has_denorm_loss = false, is_iec559 = false, traps = false;             \
    static constexpr bool tinyness_before = false;                                                                          \
    static constexpr float_denorm_style has_denorm = denorm_absent;                                                         \
    static constexpr float_round_style round_style = round_toward_zero;                                                     \
    static constexpr int digits = bits, digits10 = tens, max_digits10 = 0, radix = 2;                                       \
    static constexpr int min_exponent = 0, min_exponent10 = 0, max_exponent = 0, max_exponent10 = 0;                        \
    static constexpr T min() { return low; }                                                                                \
    static constexpr T max() { return high; }                                                                               \
    static constexpr T lowest() { return low; }                                                                             \
    static constexpr T epsilon() { return T(0); }                                                                           \
    static constexpr T round_error() { return T(0); }                                                                       \
    static constexpr T infinity() { return T(0); }                                                                          \
    static constexpr T quiet_NaN() { return T(0); }                                                                         \
    static constexpr T signaling_NaN() { return T(0); }                                                                     \
    static constexpr T denorm_min() { return T(0); }                                                                        \
  };
__MC_INTEGER_LIMITS(bool, false, true, 1, 0)
__MC_INTEGER_LIMITS(char, -128, 127, 7, 2)
__MC_INTEGER_LIMITS(int8_t, -128, 127, 7, 2)
__MC_INTEGER_LIMITS(uchar, 0, 255, 8, 2)
__MC_INTEGER_LIMITS(short, -32768, 32767, 15, 4)
__MC_INTEGER_LIMITS(ushort, 0, 65535, 16, 4)
__MC_INTEGER_LIMITS(int, -2147483647 - 1, 2147483647, 31, 9)
__MC_INTEGER_LIMITS(uint, 0, 4294967295u, 32, 9)
__MC_INTEGER_LIMITS(long, -9223372036854775807L - 1, 9223372036854775807L, 63, 18)
__MC_INTEGER_LIMITS(ulong, 0, 18446744073709551615ul, 64, 19)
#undef __MC_INTEGER_LIMITS

// Floats are given by their bit patterns: nothing depends on how a literal is parsed.
#define __MC_FLOAT_LIMITS(T, U, least, most, eps, inf, qnan, snan, half_one, bits, tens, max_tens, emin, emin10, emax, emax10)    \
  template <>                                                                                                               \
  struct _numeric_limits_impl<T> {                                                                                          \
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;                    \
    static constexpr bool is_bounded = true, is_modulo = false, has_infinity = true, has_quiet_NaN = true;                  \
    static constexpr bool has_signaling_NaN = true, has_denorm_loss = false, is_iec559 = true, traps = false;               \
    static constexpr bool tinyness_before = false;                                                                          \
    static constexpr float_denorm_style has_denorm = denorm_present;                                                        \
    static constexpr float_round_style round_style = round_to_nearest;                                                      \
    static constexpr int digits = bits, digits10 = tens, max_digits10 = max_tens, radix = 2;                                \
    static constexpr int min_exponent = emin, min_exponent10 = emin10, max_exponent = emax, max_exponent10 = emax10;        \
    static constexpr T min() { return __builtin_bit_cast(T, U(least)); }                                                    \
    static constexpr T max() { return __builtin_bit_cast(T, U(most)); }                                                     \
    static constexpr T lowest() { return __builtin_bit_cast(T, U((most) | (U(1) << (sizeof(U) * 8 - 1)))); }                \
    static constexpr T epsilon() { return __builtin_bit_cast(T, U(eps)); }                                                  \
    static constexpr T round_error() { return __builtin_bit_cast(T, U(half_one)); }                                         \
    static constexpr T infinity() { return __builtin_bit_cast(T, U(inf)); }                                                 \
    static constexpr T quiet_NaN() { return __builtin_bit_cast(T, U(qnan)); }                                               \
    static constexpr T signaling_NaN() { return __builtin_bit_cast(T, U(snan)); }                                           \
    static constexpr T denorm_min() { return __builtin_bit_cast(T, U(1)); }                                                 \
  };
#ifdef METALCORE_DOUBLE
__MC_FLOAT_LIMITS(float, ulong, 0x0010000000000000, 0x7fefffffffffffff, 0x3cb0000000000000, 0x7ff0000000000000, 0x7ff8000000000000,
                  0x7ff4000000000000, 0x3fe0000000000000, 53, 15, 17, -1021, -307, 1024, 308)
#else
__MC_FLOAT_LIMITS(float, uint, 0x00800000, 0x7f7fffff, 0x34000000, 0x7f800000, 0x7fc00000, 0x7fa00000, 0x3f000000, 24, 6, 9, -125, -37, 128, 38)
#endif
__MC_FLOAT_LIMITS(half, ushort, 0x0400, 0x7bff, 0x1400, 0x7c00, 0x7e00, 0x7d00, 0x3800, 11, 3, 5, -13, -4, 16, 4)
__MC_FLOAT_LIMITS(bfloat, ushort, 0x0080, 0x7f7f, 0x3c00, 0x7f80, 0x7fc0, 0x7fa0, 0x3f00, 8, 2, 4, -125, -37, 128, 38)
#undef __MC_FLOAT_LIMITS

template <typename T>
struct numeric_limits : _numeric_limits_impl<T> {};
template <typename T>
struct numeric_limits<const T> : numeric_limits<T> {};
template <typename T>
struct numeric_limits<volatile T> : numeric_limits<T> {};
template <typename T>
struct numeric_limits<const volatile T> : numeric_limits<T> {};

}  // namespace metal

__mc_end

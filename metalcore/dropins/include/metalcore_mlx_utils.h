// The names that MLX's JIT puts above every custom kernel, written anew so that mlx need not be installed.
#pragma once

#include <metal_stdlib>

using namespace metal;

typedef bfloat bfloat16_t;
typedef half float16_t;

inline uint16_t bfloat16_to_uint16(const bfloat16_t x) { return as_type<uint16_t>(x); }
inline bfloat16_t uint16_to_bfloat16(const uint16_t x) { return as_type<bfloat16_t>(x); }

#include "metalcore_mlx_bfloat.h"
#include "metalcore_mlx_complex.h"
#include "metalcore_mlx_limits.h"
#include "metalcore_mlx_index.h"

#define MTL_CONST constant
#define MLX_MTL_PRAGMA_UNROLL _Pragma("clang loop unroll(full)")

static constexpr constant int MAX_REDUCE_SPECIALIZED_DIMS = 4;
static constexpr constant int REDUCE_N_READS = 4;
static constexpr constant int REDUCE_N_WRITES = 4;
static constexpr constant int SOFTMAX_N_READS = 4;
static constexpr constant int RMS_N_READS = 4;
static constexpr constant int RMS_LOOPED_LIMIT = 4096;
static constexpr constant int CROSS_ENTROPY_N_READS = 4;

#define instantiate_kernel(name, func, ...) \
  template [[host_name(name)]] [[kernel]] decltype(func<__VA_ARGS__>) func<__VA_ARGS__>;

// Elements that one thread handles: as many as fit 8 bytes.
template <typename U>
struct WorkPerThread {
  static_assert(sizeof(U) <= 8, "Type too large");
  static constexpr int constant n = 8 / sizeof(U);
};

template <bool condition, typename T, typename U>
struct ConditionalType {
  using type = T;
};
template <typename T, typename U>
struct ConditionalType<false, T, U> {
  using type = U;
};

template <typename T, typename U>
inline T ceildiv(T n, U m) {
  return (n + m - 1) / m;
}

// log(1 + x): the quotient cancels the rounding of 1 + x.
inline float log1p(float x) {
  const float y = 1.0f + x;
  const float exact = x * (metal::log(y) / (y - 1.0f));
  return y == 1.0f ? x : (metal::isinf(y) && x > 0 ? y : exact);
}
inline bfloat16_t log1p(bfloat16_t x) { return bfloat16_t(log1p(float(x))); }
inline complex64_t log1p(complex64_t z) {
  const float x = z.real, y = z.imag;
  const float angle = metal::atan2(y, x + 1.0f);
  const bool near = metal::precise::sqrt(x * x + y * y) < 0.5f;
  const float small = 0.5f * log1p(x * (2.0f + x) + y * y);
  const float large = metal::log(metal::precise::sqrt((x + 1.0f) * (x + 1.0f) + y * y));
  return complex64_t(near ? small : large, angle);
}

// sqrt(x * x + y * y) with no overflow in between.
inline float hypot(float x, float y) {
  const float a = metal::fmax(metal::fabs(x), metal::fabs(y));
  const float b = metal::fmin(metal::fabs(x), metal::fabs(y));
  const float q = a == 0.0f ? 0.0f : b / a;
  const float r = a * metal::precise::sqrt(metal::fma(q, q, 1.0f));
  const bool infinite = metal::isinf(x) || metal::isinf(y);
  return infinite ? metal::numeric_limits<float>::infinity()
                  : (metal::isnan(x) || metal::isnan(y) ? metal::numeric_limits<float>::quiet_NaN() : r);
}

// Metal shuffles up to 32 bits; MLX adds 64-bit, bool and complex values.
#define METALCORE_MLX_SHUFFLE(NAME)                                                                     \
  inline uint64_t NAME(uint64_t v, uint16_t n) { return as_type<uint64_t>(metal::NAME(as_type<uint2>(v), n)); } \
  inline int64_t NAME(int64_t v, uint16_t n) { return as_type<int64_t>(metal::NAME(as_type<uint2>(v), n)); }    \
  inline bool NAME(bool v, uint16_t n) { return metal::NAME(static_cast<uint32_t>(v), n) != 0; }          \
  inline complex64_t NAME(complex64_t v, uint16_t n) {                                                  \
    return complex64_t(metal::NAME(v.real, n), metal::NAME(v.imag, n));                                 \
  }
METALCORE_MLX_SHUFFLE(simd_shuffle)
METALCORE_MLX_SHUFFLE(simd_shuffle_up)
METALCORE_MLX_SHUFFLE(simd_shuffle_down)
#undef METALCORE_MLX_SHUFFLE

inline uint64_t simd_shuffle_and_fill_up(uint64_t v, uint64_t fill, uint16_t n) {
  return as_type<uint64_t>(metal::simd_shuffle_and_fill_up(as_type<uint2>(v), as_type<uint2>(fill), n));
}
inline int64_t simd_shuffle_and_fill_up(int64_t v, int64_t fill, uint16_t n) {
  return as_type<int64_t>(metal::simd_shuffle_and_fill_up(as_type<uint2>(v), as_type<uint2>(fill), n));
}
inline bool simd_shuffle_and_fill_up(bool v, bool fill, uint16_t n) {
  return metal::simd_shuffle_and_fill_up(static_cast<uint32_t>(v), static_cast<uint32_t>(fill), n) != 0;
}
inline complex64_t simd_shuffle_and_fill_up(complex64_t v, complex64_t fill, uint16_t n) {
  return complex64_t(
      metal::simd_shuffle_and_fill_up(v.real, fill.real, n), metal::simd_shuffle_and_fill_up(v.imag, fill.imag, n));
}

// To bool by the bits, so that fast math cannot flush a small number to false.
template <typename U, typename T>
inline U cast_to(T v) {
  return static_cast<U>(v);
}
template <>
inline bool cast_to<bool, float>(float v) {
  return (as_type<uint32_t>(v) << 1) != 0;
}
template <>
inline bool cast_to<bool, bfloat16_t>(bfloat16_t v) {
  return (as_type<uint16_t>(v) & 0x7FFF) != 0;
}
template <>
inline bool cast_to<bool, complex64_t>(complex64_t v) {
  return cast_to<bool, float>(v.real) || cast_to<bool, float>(v.imag);
}

// Kernels may log; the engine has nowhere to log to.
namespace mlx {
struct os_log {
  constexpr os_log(constant const char*, constant const char*) {}
  template <typename... Args>
  void log_debug(constant const char*, Args...) const {}
};
}  // namespace mlx

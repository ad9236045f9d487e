// Metal's scalar types, usable globally and in metal::.
#pragma once

#include "metal_config.h"
#include "retype.h"
#include "spaces.h"

typedef _Float16 half;
typedef __bf16 bfloat;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef signed char int_least8_t;
typedef unsigned char uint_least8_t;
typedef short int_least16_t;
typedef unsigned short uint_least16_t;
typedef int int_least32_t;
typedef unsigned int uint_least32_t;
typedef signed char int_fast8_t;
typedef unsigned char uint_fast8_t;
typedef short int_fast16_t;
typedef unsigned short uint_fast16_t;
typedef int int_fast32_t;
typedef unsigned int uint_fast32_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef long intmax_t;
typedef unsigned long uintmax_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;

namespace metal {
using ::bfloat;
using ::half;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intmax_t;
using ::intptr_t;
using ::ptrdiff_t;
using ::size_t;
using ::uchar;
using ::uint;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintmax_t;
using ::uintptr_t;
using ::ulong;
using ::ushort;
typedef decltype(nullptr) nullptr_t;

template <typename T, int N>
struct vec;
template <typename T, int N, typename V = vec<T, N>>
struct packed_vec;
template <typename T, int C, int R>
struct matrix;

// The cast between half and bfloat goes through float, which holds both exactly; clang has no direct one.
template <typename To, typename From>
struct __mc_convert {
  static constexpr __attribute__((always_inline, nodebug)) To cast(From v) { return static_cast<To>(v); }
};
template <>
struct __mc_convert<bfloat, half> {
  static constexpr __attribute__((always_inline, nodebug)) bfloat cast(half v) { return static_cast<bfloat>(static_cast<float>(v)); }
};
template <>
struct __mc_convert<half, bfloat> {
  static constexpr __attribute__((always_inline, nodebug)) half cast(bfloat v) { return static_cast<half>(static_cast<float>(v)); }
};
template <typename To, typename From>
constexpr __attribute__((always_inline, nodebug)) To __mc_cast(From v) {
  return __mc_convert<To, From>::cast(v);
}
}  // namespace metal

// char is signed in Metal; int8_t is `signed char`, another type, so the library takes both.
static_assert(static_cast<char>(-1) < 0, "compile with signed char");

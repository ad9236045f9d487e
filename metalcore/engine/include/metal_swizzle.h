// Swizzles of vec and packed_vec. `v.xyz` is a property: reading it calls __g_xyz(), writing it __p_xyz(), in every address space.
// A class with members x, y[, z, w] and template argument T expands __MC_SWIZZLES2, 3 or 4 in its body.
#pragma once

// Types are named once: `vec<T, 4>` a thousand times makes the header, which a first call waits for, a sixth slower.
#define __MC_TYPES             \
  typedef vec<T, 2> __mc_vec2; \
  typedef vec<T, 3> __mc_vec3; \
  typedef vec<T, 4> __mc_vec4;

// One swizzle in both spellings; a put function exists only where no component is repeated, so writing v.xx does not compile.
// It takes lvalues only: writing v.xyz.yx, a swizzle of a temporary, does not compile either, where it would be lost.
#define __MC_S2(a, A, b, B)                                                        \
  __declspec(property(get = __g_##a##b, put = __p_##a##b)) __mc_vec2 a##b;         \
  __declspec(property(get = __g_##a##b, put = __p_##a##b)) __mc_vec2 A##B;         \
  constexpr __mc_vec2 __g_##a##b() const { return {a, b}; }
#define __MC_S3(a, A, b, B, c, C)                                                  \
  __declspec(property(get = __g_##a##b##c, put = __p_##a##b##c)) __mc_vec3 a##b##c; \
  __declspec(property(get = __g_##a##b##c, put = __p_##a##b##c)) __mc_vec3 A##B##C; \
  constexpr __mc_vec3 __g_##a##b##c() const { return {a, b, c}; }
#define __MC_S4(a, A, b, B, c, C, d, D)                                                    \
  __declspec(property(get = __g_##a##b##c##d, put = __p_##a##b##c##d)) __mc_vec4 a##b##c##d; \
  __declspec(property(get = __g_##a##b##c##d, put = __p_##a##b##c##d)) __mc_vec4 A##B##C##D; \
  constexpr __mc_vec4 __g_##a##b##c##d() const { return {a, b, c, d}; }

#define __MC_P1(a, A)                                              \
  __declspec(property(get = __g_##a, put = __p_##a)) T A;          \
  constexpr T __g_##a() const { return a; }                        \
  constexpr void __p_##a(T v) & { a = v; }
#define __MC_P2(a, b)                                \
  constexpr void __p_##a##b(const __mc_vec2& v) & {  \
    T p = v.x, q = v.y;                              \
    a = p;                                           \
    b = q;                                           \
  }
#define __MC_P3(a, b, c)                             \
  constexpr void __p_##a##b##c(const __mc_vec3& v) & { \
    T p = v.x, q = v.y, r = v.z;                     \
    a = p;                                           \
    b = q;                                           \
    c = r;                                           \
  }
#define __MC_P4(a, b, c, d)                             \
  constexpr void __p_##a##b##c##d(const __mc_vec4& v) & { \
    T p = v.x, q = v.y, r = v.z, s = v.w;               \
    a = p;                                              \
    b = q;                                              \
    c = r;                                              \
    d = s;                                              \
  }

// All swizzles of two components.
#define __MC_A2_4(...) __MC_S4(__VA_ARGS__, x, r) __MC_S4(__VA_ARGS__, y, g)
#define __MC_A2_3(...) __MC_S3(__VA_ARGS__, x, r) __MC_S3(__VA_ARGS__, y, g) __MC_A2_4(__VA_ARGS__, x, r) __MC_A2_4(__VA_ARGS__, y, g)
#define __MC_A2_2(...) __MC_S2(__VA_ARGS__, x, r) __MC_S2(__VA_ARGS__, y, g) __MC_A2_3(__VA_ARGS__, x, r) __MC_A2_3(__VA_ARGS__, y, g)
#define __MC_SWIZZLES2 __MC_TYPES __MC_A2_2(x, r) __MC_A2_2(y, g) __MC_P1(x, r) __MC_P1(y, g) __MC_P2(x, y) __MC_P2(y, x)

// All swizzles of three components.
#define __MC_A3_4(...) __MC_S4(__VA_ARGS__, x, r) __MC_S4(__VA_ARGS__, y, g) __MC_S4(__VA_ARGS__, z, b)
#define __MC_A3_3(...)                                                                              \
  __MC_S3(__VA_ARGS__, x, r) __MC_S3(__VA_ARGS__, y, g) __MC_S3(__VA_ARGS__, z, b)                  \
  __MC_A3_4(__VA_ARGS__, x, r) __MC_A3_4(__VA_ARGS__, y, g) __MC_A3_4(__VA_ARGS__, z, b)
#define __MC_A3_2(...)                                                                              \
  __MC_S2(__VA_ARGS__, x, r) __MC_S2(__VA_ARGS__, y, g) __MC_S2(__VA_ARGS__, z, b)                  \
  __MC_A3_3(__VA_ARGS__, x, r) __MC_A3_3(__VA_ARGS__, y, g) __MC_A3_3(__VA_ARGS__, z, b)
#define __MC_PUT3(a, b, c) __MC_P2(a, b) __MC_P2(b, a) __MC_P3(a, b, c) __MC_P3(b, a, c)
#define __MC_SWIZZLES3 __MC_TYPES                                                                              \
  __MC_A3_2(x, r) __MC_A3_2(y, g) __MC_A3_2(z, b) __MC_P1(x, r) __MC_P1(y, g) __MC_P1(z, b)         \
  __MC_PUT3(x, y, z) __MC_PUT3(y, z, x) __MC_PUT3(z, x, y)

// All swizzles of four components.
#define __MC_A4_4(...)                                                                              \
  __MC_S4(__VA_ARGS__, x, r) __MC_S4(__VA_ARGS__, y, g) __MC_S4(__VA_ARGS__, z, b) __MC_S4(__VA_ARGS__, w, a)
#define __MC_A4_3(...)                                                                                        \
  __MC_S3(__VA_ARGS__, x, r) __MC_S3(__VA_ARGS__, y, g) __MC_S3(__VA_ARGS__, z, b) __MC_S3(__VA_ARGS__, w, a) \
  __MC_A4_4(__VA_ARGS__, x, r) __MC_A4_4(__VA_ARGS__, y, g) __MC_A4_4(__VA_ARGS__, z, b) __MC_A4_4(__VA_ARGS__, w, a)
#define __MC_A4_2(...)                                                                                        \
  __MC_S2(__VA_ARGS__, x, r) __MC_S2(__VA_ARGS__, y, g) __MC_S2(__VA_ARGS__, z, b) __MC_S2(__VA_ARGS__, w, a) \
  __MC_A4_3(__VA_ARGS__, x, r) __MC_A4_3(__VA_ARGS__, y, g) __MC_A4_3(__VA_ARGS__, z, b) __MC_A4_3(__VA_ARGS__, w, a)
#define __MC_PUT2(a, b) __MC_P2(a, b) __MC_P2(b, a)
#define __MC_PUT33(a, b, c) __MC_P3(a, b, c) __MC_P3(a, c, b) __MC_P3(b, a, c) __MC_P3(b, c, a) __MC_P3(c, a, b) __MC_P3(c, b, a)
#define __MC_PUT4(a, b, c, d) __MC_P4(a, b, c, d) __MC_P4(a, b, d, c) __MC_P4(a, c, b, d) __MC_P4(a, c, d, b) __MC_P4(a, d, b, c) __MC_P4(a, d, c, b)
#define __MC_SWIZZLES4 __MC_TYPES                                                                              \
  __MC_A4_2(x, r) __MC_A4_2(y, g) __MC_A4_2(z, b) __MC_A4_2(w, a)                                   \
  __MC_P1(x, r) __MC_P1(y, g) __MC_P1(z, b) __MC_P1(w, a)                                           \
  __MC_PUT2(x, y) __MC_PUT2(x, z) __MC_PUT2(x, w) __MC_PUT2(y, z) __MC_PUT2(y, w) __MC_PUT2(z, w)   \
  __MC_PUT33(x, y, z) __MC_PUT33(x, y, w) __MC_PUT33(x, z, w) __MC_PUT33(y, z, w)                   \
  __MC_PUT4(x, y, z, w) __MC_PUT4(y, x, z, w) __MC_PUT4(z, x, y, w) __MC_PUT4(w, x, y, z)

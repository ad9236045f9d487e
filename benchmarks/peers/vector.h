// What the C++ peers share: 8-wide vectors (clang's vector extension), the engine's own exp and tanh polynomials, and a
// split of the work over threads. Nothing of the system's headers is included: the compiler comes without them.
#pragma once

typedef float f8 __attribute__((vector_size(32)));
typedef int i8 __attribute__((vector_size(32)));
typedef unsigned u8 __attribute__((vector_size(32)));
typedef f8 f8u __attribute__((aligned(4)));
typedef unsigned long size;

constexpr int W = 8;
#define INLINE static inline __attribute__((always_inline))

INLINE f8 load(const float* p) { return *reinterpret_cast<const f8u*>(p); }
INLINE void store(float* p, f8 v) { *reinterpret_cast<f8u*>(p) = v; }
INLINE f8 all(float v) { return f8{v, v, v, v, v, v, v, v}; }
INLINE f8 fma(f8 a, f8 b, f8 c) { return __builtin_elementwise_fma(a, b, c); }
INLINE f8 larger(f8 a, f8 b) { return a > b ? a : b; }
INLINE f8 smaller(f8 a, f8 b) { return a < b ? a : b; }

INLINE float sum_of(f8 v) {
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
  v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
  return v[0];
}
INLINE float largest_of(f8 v) {
  v = larger(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
  v = larger(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
  v = larger(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
  return v[0];
}

// e^r for |r| <= ln 2 / 2, as in the engine's math_exp.h
INLINE f8 exp_polynomial(f8 r) {
  f8 p = all(0x1.6a525p-10f);
  p = fma(p, r, all(0x1.12396ep-7f));
  p = fma(p, r, all(0x1.5558aap-5f));
  p = fma(p, r, all(0x1.555492p-3f));
  p = fma(p, r, all(0x1.fffffcp-2f));
  p = fma(p, r, all(1.0f));
  return fma(p, r, all(1.0f));
}
INLINE f8 exp(f8 x) {
  const f8 magic = all(0x1.8p23f + 254.0f);
  x = larger(smaller(x, all(89.0f)), all(-104.0f));
  f8 shifted = fma(x, all(0x1.715476p+0f), magic);
  f8 k = shifted - magic;
  f8 r = fma(k, all(-0x1.62e43p-1f), x);
  r = fma(k, all(0x1.05c61p-29f), r);
  i8 i = reinterpret_cast<i8>(shifted);
  i8 half = i >> 1;
  f8 s1 = reinterpret_cast<f8>(half << 23);
  f8 s2 = reinterpret_cast<f8>((i - half) << 23);
  return exp_polynomial(r) * s1 * s2;
}
// as in the engine's math_hyperbolic.h
INLINE f8 tanh(f8 x) {
  const u8 sign = reinterpret_cast<u8>(x) & 0x80000000u;
  f8 a = reinterpret_cast<f8>(reinterpret_cast<u8>(x) & 0x7fffffffu);
  f8 z = a * a;
  f8 p = all(-0x1.750ce4p-8f);
  p = fma(p, z, all(0x1.51f8cep-6f));
  p = fma(p, z, all(-0x1.b835a4p-5f));
  p = fma(p, z, all(0x1.1106f6p-3f));
  p = fma(p, z, all(-0x1.555532p-2f));
  f8 small = fma(p * z, a, a);
  const f8 magic = all(0x1.8p23f + 126.0f);
  f8 t = smaller(a, all(10.0f));
  f8 shifted = fma(t, all(2.0f * 0x1.715476p+0f), magic);
  f8 k = shifted - magic;
  f8 r = fma(k, all(-0x1.62e43p-1f), t + t);
  r = fma(k, all(0x1.05c61p-29f), r);
  f8 e = exp_polynomial(r) * reinterpret_cast<f8>(reinterpret_cast<u8>(shifted) << 23);
  f8 big = 1.0f - 1.0f / (e + 0.5f);
  f8 value = a < 0.6f ? small : big;
  return reinterpret_cast<f8>(reinterpret_cast<u8>(value) | sign);
}

extern "C" int pthread_create(size*, const void*, void* (*)(void*), void*);
extern "C" int pthread_join(size, void**);

template <typename Body>
struct Share {
  const Body* body;
  size begin, end;
};
template <typename Body>
static void* run_share(void* argument) {
  auto* share = static_cast<Share<Body>*>(argument);
  (*share->body)(share->begin, share->end);
  return nullptr;
}
// body(begin, end) over 0..count on one or two threads; the border is a multiple of `grain`.
template <typename Body>
static void split(int threads, size count, size grain, const Body& body) {
  if (threads < 2) {
    body(0, count);
    return;
  }
  const size middle = count / 2 / grain * grain;
  Share<Body> second{&body, middle, count};
  size thread;
  if (pthread_create(&thread, nullptr, run_share<Body>, &second) != 0) {
    body(0, count);
    return;
  }
  body(0, middle);
  pthread_join(thread, nullptr);
}

#include "vector.h"

// Two vectors a step, then the rest one by one (padded into a vector, so that it takes the same path).
template <typename Step>
INLINE void each(size begin, size end, const float* x, float* y, const Step& step) {
  size i = begin;
  for (; i + 2 * W <= end; i += 2 * W) {
    f8 first = step(load(x + i), load(y + i));
    f8 second = step(load(x + i + W), load(y + i + W));
    store(y + i, first);
    store(y + i + W, second);
  }
  for (; i < end; ++i) {
    y[i] = step(all(x[i]), all(y[i]))[0];
  }
}

extern "C" void saxpy(int threads, const float* x, float* y, float a, size count) {
  split(threads, count, 16, [=](size begin, size end) {
    each(begin, end, x, y, [=](f8 v, f8 old) { return fma(all(a), v, old); });
  });
}
extern "C" void silu(int threads, const float* x, float* y, size count) {
  split(threads, count, 16, [=](size begin, size end) {
    each(begin, end, x, y, [](f8 v, f8) { return v / (1.0f + exp(-v)); });
  });
}
extern "C" void gelu(int threads, const float* x, float* y, size count) {
  split(threads, count, 16, [=](size begin, size end) {
    each(begin, end, x, y, [](f8 v, f8) {
      return 0.5f * v * (1.0f + tanh(0.7978845608f * (v + 0.044715f * v * v * v)));
    });
  });
}

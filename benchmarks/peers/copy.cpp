#include "vector.h"

// A plain copy. libc's memcpy goes past the caches when the block is large, which is slower while they could hold it.
extern "C" void copy(int threads, const float* x, float* y, size count) {
  split(threads, count, 16, [=](size begin, size end) {
    size i = begin;
    for (; i + 2 * W <= end; i += 2 * W) {
      const f8 first = load(x + i), second = load(x + i + W);
      store(y + i, first);
      store(y + i + W, second);
    }
    for (; i < end; ++i) {
      y[i] = x[i];
    }
  });
}

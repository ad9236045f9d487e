// c = a @ b by blocks: a block of a (BLOCK x DEPTH) stays in the second cache, a strip of b (DEPTH x 16) is copied
// together so that it stays in the first, and each 6 x 16 tile of c lives in registers while it is walked.
#include "vector.h"

constexpr size DEPTH = 256, COLUMNS = 2 * W, HIGH = 6, BLOCK = 16 * HIGH;

template <int ROWS>
INLINE void tile(const float* a, const float* strip, float* c, size n, size k, size depth, bool first) {
  f8 sum[ROWS][2];
  for (int r = 0; r < ROWS; ++r) {
    for (int j = 0; j < 2; ++j) {
      sum[r][j] = first ? f8{} : load(c + r * n + j * W);
    }
  }
  for (size i = 0; i < depth; ++i) {
    const f8 b0 = load(strip + i * COLUMNS), b1 = load(strip + i * COLUMNS + W);
    for (int r = 0; r < ROWS; ++r) {
      const f8 value = all(a[r * k + i]);
      sum[r][0] = fma(value, b0, sum[r][0]);
      sum[r][1] = fma(value, b1, sum[r][1]);
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    for (int j = 0; j < 2; ++j) {
      store(c + r * n + j * W, sum[r][j]);
    }
  }
}

static void rows_of(const float* a, const float* b, float* c, size begin, size end, size n, size k, size start) {
  alignas(64) float strip[DEPTH * COLUMNS];
  const size depth = k - start < DEPTH ? k - start : DEPTH;
  for (size column = 0; column < n; column += COLUMNS) {
    for (size i = 0; i < depth; ++i) {
      const float* from = b + (start + i) * n + column;
      store(strip + i * COLUMNS, load(from));
      store(strip + i * COLUMNS + W, load(from + W));
    }
    size row = begin;
    for (; row + HIGH <= end; row += HIGH) {
      tile<HIGH>(a + row * k + start, strip, c + row * n + column, n, k, depth, start == 0);
    }
    for (; row < end; ++row) {
      tile<1>(a + row * k + start, strip, c + row * n + column, n, k, depth, start == 0);
    }
  }
}

// n must be a multiple of 16.
extern "C" void gemm(int threads, const float* a, const float* b, float* c, size m, size n, size k) {
  split(threads, m, HIGH, [=](size begin, size end) {
    for (size start = 0; start < k; start += DEPTH) {
      for (size row = begin; row < end; row += BLOCK) {
        rows_of(a, b, c, row, row + BLOCK < end ? row + BLOCK : end, n, k, start);
      }
    }
  });
}

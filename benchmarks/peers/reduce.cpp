#include "vector.h"

INLINE float sum_range(const float* x, size n) {
  f8 s[8] = {};
  size i = 0;
  for (; i + 8 * W <= n; i += 8 * W) {
    for (int j = 0; j < 8; ++j) {
      s[j] += load(x + i + j * W);
    }
  }
  float total = sum_of(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
  for (; i < n; ++i) {
    total += x[i];
  }
  return total;
}

extern "C" void row_sum(int threads, const float* x, float* out, size rows, size n) {
  split(threads, rows, 1, [=](size begin, size end) {
    for (size row = begin; row < end; ++row) {
      out[row] = sum_range(x + row * n, n);
    }
  });
}

// Chunk by chunk, then the chunks' sums: as accurate as the kernel, and the same split.
extern "C" void full_sum(int threads, const float* x, float* partial, float* out, size count, size chunk) {
  const size chunks = (count + chunk - 1) / chunk;
  split(threads, chunks, 1, [=](size begin, size end) {
    for (size c = begin; c < end; ++c) {
      const size start = c * chunk, stop = start + chunk < count ? start + chunk : count;
      partial[c] = sum_range(x + start, stop - start);
    }
  });
  out[0] = sum_range(partial, chunks);
}

// Running sums within a vector: add the vector shifted by one, two and four places.
INLINE f8 running(f8 v) {
  const f8 zero{};
  v += __builtin_shufflevector(zero, v, 0, 8, 9, 10, 3, 12, 13, 14);
  v += __builtin_shufflevector(zero, v, 0, 1, 8, 9, 4, 5, 12, 13);
  v += __builtin_shufflevector(zero, v, 0, 1, 2, 3, 11, 11, 11, 11);
  return v;
}

extern "C" void row_scan(int threads, const float* x, float* y, size rows, size n) {
  split(threads, rows, 1, [=](size begin, size end) {
    for (size row = begin; row < end; ++row) {
      const float* in = x + row * n;
      float* out = y + row * n;
      f8 carry{};
      size i = 0;
      for (; i + 4 * W <= n; i += 4 * W) {
        f8 r[4];
        for (int j = 0; j < 4; ++j) {
          r[j] = running(load(in + i + j * W));
        }
        for (int j = 0; j < 4; ++j) {
          f8 total = __builtin_shufflevector(r[j], r[j], 7, 7, 7, 7, 7, 7, 7, 7);
          store(out + i + j * W, r[j] + carry);
          carry += total;
        }
      }
      float sum = carry[0];
      for (; i < n; ++i) {
        sum += in[i];
        out[i] = sum;
      }
    }
  });
}

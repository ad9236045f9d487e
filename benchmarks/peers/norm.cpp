#include "vector.h"

constexpr size STEP = 4 * W;  // four accumulators

INLINE float sum_row(const float* x, size n) {
  f8 s0{}, s1{}, s2{}, s3{};
  size i = 0;
  for (; i + STEP <= n; i += STEP) {
    s0 += load(x + i);
    s1 += load(x + i + W);
    s2 += load(x + i + 2 * W);
    s3 += load(x + i + 3 * W);
  }
  float s = sum_of((s0 + s1) + (s2 + s3));
  for (; i < n; ++i) {
    s += x[i];
  }
  return s;
}

// sum of (x - mean)^2
INLINE float squares_row(const float* x, size n, float mean) {
  f8 s0{}, s1{}, s2{}, s3{};
  size i = 0;
  for (; i + STEP <= n; i += STEP) {
    f8 a = load(x + i) - mean, b = load(x + i + W) - mean, c = load(x + i + 2 * W) - mean, d = load(x + i + 3 * W) - mean;
    s0 = fma(a, a, s0);
    s1 = fma(b, b, s1);
    s2 = fma(c, c, s2);
    s3 = fma(d, d, s3);
  }
  float s = sum_of((s0 + s1) + (s2 + s3));
  for (; i < n; ++i) {
    s += (x[i] - mean) * (x[i] - mean);
  }
  return s;
}

extern "C" void rms_norm(int threads, const float* x, const float* w, float* y, size rows, size n, float eps) {
  split(threads, rows, 1, [=](size begin, size end) {
    for (size row = begin; row < end; ++row) {
      const float* in = x + row * n;
      float* out = y + row * n;
      const float scale = 1.0f / __builtin_sqrtf(squares_row(in, n, 0.0f) / n + eps);
      size i = 0;
      for (; i + W <= n; i += W) {
        store(out + i, load(w + i) * (load(in + i) * scale));
      }
      for (; i < n; ++i) {
        out[i] = w[i] * (in[i] * scale);
      }
    }
  });
}

extern "C" void layer_norm(int threads, const float* x, const float* w, const float* b, float* y, size rows, size n,
                           float eps) {
  split(threads, rows, 1, [=](size begin, size end) {
    for (size row = begin; row < end; ++row) {
      const float* in = x + row * n;
      float* out = y + row * n;
      const float mean = sum_row(in, n) / n;
      const float scale = 1.0f / __builtin_sqrtf(squares_row(in, n, mean) / n + eps);
      size i = 0;
      for (; i + W <= n; i += W) {
        store(out + i, fma((load(in + i) - mean) * scale, load(w + i), load(b + i)));
      }
      for (; i < n; ++i) {
        out[i] = (in[i] - mean) * scale * w[i] + b[i];
      }
    }
  });
}

INLINE float largest_row(const float* x, size n) {
  f8 m0 = all(x[0]), m1 = m0, m2 = m0, m3 = m0;
  size i = 0;
  for (; i + STEP <= n; i += STEP) {
    m0 = larger(m0, load(x + i));
    m1 = larger(m1, load(x + i + W));
    m2 = larger(m2, load(x + i + 2 * W));
    m3 = larger(m3, load(x + i + 3 * W));
  }
  float m = largest_of(larger(larger(m0, m1), larger(m2, m3)));
  for (; i < n; ++i) {
    m = x[i] > m ? x[i] : m;
  }
  return m;
}

extern "C" void softmax(int threads, const float* x, float* y, size rows, size n) {
  split(threads, rows, 1, [=](size begin, size end) {
    for (size row = begin; row < end; ++row) {
      const float* in = x + row * n;
      float* out = y + row * n;
      const float largest = largest_row(in, n);
      f8 s0{}, s1{};
      size i = 0;
      for (; i + 2 * W <= n; i += 2 * W) {
        f8 first = exp(load(in + i) - largest), second = exp(load(in + i + W) - largest);
        store(out + i, first);
        store(out + i + W, second);
        s0 += first;
        s1 += second;
      }
      float sum = sum_of(s0 + s1);
      for (; i < n; ++i) {
        out[i] = exp(all(in[i] - largest))[0];
        sum += out[i];
      }
      const float scale = 1.0f / sum;
      i = 0;
      for (; i + W <= n; i += W) {
        store(out + i, load(out + i) * scale);
      }
      for (; i < n; ++i) {
        out[i] *= scale;
      }
    }
  });
}

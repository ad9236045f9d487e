// What the normalisations share.
#pragma once
#include "group.h"
#include "wide.h"

// One row, taken by all threads of a threadgroup in steps of V elements.
struct Row {
  uint lid;         // thread_position_in_threadgroup
  uint group_size;  // threads_per_threadgroup
  uint steps;       // width / V
  float width;
};

// The value that memory of type T holds after a store.
template <typename T, uint V>
inline wide<float, V> rounded(wide<float, V> value) {
  return wide<float, V>(wide<T, V>(value));
}

// How many rows a gradient takes at once: they read and write the share of a weight's gradient once, and their sum has
// fewer roundings. With vectors the registers are taken already.
template <uint V>
struct AtOnce {
  enum : uint { rows = V == 1 ? 4 : 1 };
};

// Adds up the parts of a weight's gradient of rows taken at once; in float together with what is rounded off, so that the
// error is that of one rounding.
template <typename W, uint V>
struct Share {
  using F = wide<float, V>;
  F sum;
  F lost;

  void add(F part) {
    if (sizeof(W) > 2) {
      const F next = sum + part;
      const F added = next - sum;
      lost += (sum - (next - added)) + (part - added);
      sum = next;
    } else {
      sum += part;
    }
  }
  // g r x
  void add(F g, F r, F x) {
    const F scaled = g * r;
    if (sizeof(W) > 2) {
      const F part = scaled * x;
      lost += fma(fma(g, r, -scaled), x, fma(scaled, x, -part));
      add(part);
    } else {
      sum = fma(scaled, x, sum);
    }
  }
  F result() { return sizeof(W) > 2 ? sum + lost : sum; }
};

// 1 / sqrt(s), correctly rounded but for rare ties; metal::rsqrt is less exact.
inline float inverse_root(float s) {
  const float r = 1.0f / sqrt(s);
  const float high = s * r;
  const float wrong = fma(-high, r, 1.0f) - fma(s, r, -high) * r;
  const float better = fma(0.5f * wrong, r, r);
  return isfinite(better) ? better : r;
}

template <uint V>
inline void clear(device float* to, Row row) {
  for (uint i = row.lid; i < row.steps; i += row.group_size) {
    store<V>(to, i, wide<float, V>(0.0f));
  }
}

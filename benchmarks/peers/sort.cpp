#include "vector.h"

constexpr size BLOCK = 1024;

// One compare-exchange step inside a vector; `ascending` and `lower` say which of the pair a lane keeps.
template <int STRIDE>
INLINE f8 within(f8 v, i8 keep_small) {
  f8 other;
  if constexpr (STRIDE == 4) {
    other = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
  } else if constexpr (STRIDE == 2) {
    other = __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
  } else {
    other = __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
  }
  return keep_small ? smaller(v, other) : larger(v, other);
}

INLINE void pair(f8& low, f8& high, bool ascending) {
  f8 small = smaller(low, high), large = larger(low, high);
  low = ascending ? small : large;
  high = ascending ? large : small;
}

constexpr i8 LANE = {0, 1, 2, 3, 4, 5, 6, 7};

// Lanes that keep the smaller value: the lower one of a pair in an ascending run, the upper one in a descending run.
INLINE i8 small_lanes(int stride, i8 ascending) { return ((LANE & stride) == 0) == ascending; }

INLINE void sort_block(float* a) {
  // Runs of 2, 4 and 8 inside each vector.
  const i8 up2 = (LANE & 2) == 0, up4 = (LANE & 4) == 0;
  for (size i = 0; i < BLOCK; i += W) {
    const i8 up8 = (i8{} + ((i & 8) == 0 ? -1 : 0));
    f8 v = load(a + i);
    v = within<1>(v, small_lanes(1, up2));
    v = within<2>(v, small_lanes(2, up4));
    v = within<1>(v, small_lanes(1, up4));
    v = within<4>(v, small_lanes(4, up8));
    v = within<2>(v, small_lanes(2, up8));
    v = within<1>(v, small_lanes(1, up8));
    store(a + i, v);
  }
  for (size run = 16; run <= BLOCK; run *= 2) {
    size stride = run / 2;
    for (; stride >= 32; stride /= 2) {
      for (size base = 0; base < BLOCK; base += 2 * stride) {
        const bool ascending = (base & run) == 0;
        for (size i = base; i < base + stride; i += W) {
          f8 low = load(a + i), high = load(a + i + stride);
          f8 small = smaller(low, high), large = larger(low, high);
          store(a + i, ascending ? small : large);
          store(a + i + stride, ascending ? large : small);
        }
      }
    }
    // The rest of the strides (16 and less) with 32 elements in registers.
    for (size i = 0; i < BLOCK; i += 4 * W) {
      f8 v[4];
      for (int j = 0; j < 4; ++j) {
        v[j] = load(a + i + j * W);
      }
      if (run >= 32) {
        const bool ascending = (i & run) == 0;
        pair(v[0], v[2], ascending);
        pair(v[1], v[3], ascending);
      }
      pair(v[0], v[1], (i & run) == 0);
      pair(v[2], v[3], ((i + 2 * W) & run) == 0);
      for (int j = 0; j < 4; ++j) {
        const i8 up = (i8{} + (((i + j * W) & run) == 0 ? -1 : 0));
        v[j] = within<4>(v[j], small_lanes(4, up));
        v[j] = within<2>(v[j], small_lanes(2, up));
        v[j] = within<1>(v[j], small_lanes(1, up));
        store(a + i + j * W, v[j]);
      }
    }
  }
}

extern "C" void bitonic_sort(int threads, const float* x, float* y, size blocks) {
  split(threads, blocks, 1, [=](size begin, size end) {
    for (size block = begin; block < end; ++block) {
      float* out = y + block * BLOCK;
      for (size i = 0; i < BLOCK; i += W) {
        store(out + i, load(x + block * BLOCK + i));
      }
      sort_block(out);
    }
  });
}

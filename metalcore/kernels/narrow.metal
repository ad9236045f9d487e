// y[i] = x[i] in 32 bits, for kernels that count in them: what does not fit becomes the largest or smallest number, which
// is out of range everywhere, and never one that a wrapped number would be.
#include <metal_stdlib>
using namespace metal;

template <typename I>
[[kernel]] void narrow_indices(
    device const I* x [[buffer(0)]],
    device int* y [[buffer(1)]],
    constant long& count [[buffer(2)]],
    uint i [[thread_position_in_grid]]) {
  if (i < count) {
    y[i] = int(clamp(long(x[i]), -0x7fffffffl - 1, 0x7fffffffl));
  }
}

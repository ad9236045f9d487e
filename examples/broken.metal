// A three-point mean with a mistake: the last two threads read past the end of x.
#include <metal_stdlib>
using namespace metal;

kernel void blur(
    device const float* x [[buffer(0)]],
    device float* y [[buffer(1)]],
    uint i [[thread_position_in_grid]]) {
  y[i] = (x[i] + x[i + 1] + x[i + 2]) / 3.0f;
}

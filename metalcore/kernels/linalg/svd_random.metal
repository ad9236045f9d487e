// Normal random numbers from a seed: element i is always the same (Jarzynski and Olano, JCGT 9, 2020: PCG; Box and
// Muller, 1958).
#include <metal_stdlib>
using namespace metal;

inline uint svd_hash(uint value) {
  const uint state = value * 747796405u + 2891336453u;
  const uint word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
  return (word >> 22u) ^ word;
}

template <typename T>
[[kernel]] void svd_random(
    device T* out [[buffer(0)]],
    constant long& count [[buffer(1)]],
    constant long& seed [[buffer(2)]],
    uint id [[thread_position_in_grid]]) {
  if (id >= count) {
    return;
  }
  const uint first = svd_hash(id ^ svd_hash(uint(seed))), second = svd_hash(first);
  const float radius = (float(first >> 8) + 0.5f) * 0x1p-24f, angle = float(second >> 8) * 0x1p-23f;
  out[id] = sqrt(-2 * log(radius)) * cospi(angle);
}

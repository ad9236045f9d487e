#include <metal_stdlib>

#include <c10/metal/random.h>

kernel void philox(device uint4* out, constant long& seed, uint i [[thread_position_in_grid]]) {
  out[i] = c10::metal::philox4::rand(seed, i);
}

kernel void uniform_and_normal(
    device float* uniform, device float* normal, device float2* pair, device long* whole, constant long& seed,
    uint i [[thread_position_in_grid]]) {
  uniform[i] = c10::metal::rand(seed, i);
  normal[i] = c10::metal::randn(seed, i);
  pair[i] = c10::metal::box_muller_from_philox(c10::metal::philox4::rand(seed, i).xy);
  whole[i] = c10::metal::randint64(seed, i, -10, 90);
}

// Bitonic sort of blocks of 1,024 floats in local memory.
#define BLOCK 1024

kernel void bitonic_sort(global const float* x, global float* y) {
  local float shared[BLOCK];
  const uint lid = get_local_id(0);
  const uint at = get_group_id(0) * BLOCK + lid;
  float v = x[at];
  for (uint run = 2; run <= BLOCK; run *= 2) {
    const int ascending = (lid & run) == 0;
    for (uint stride = run / 2; stride > 0; stride /= 2) {
      shared[lid] = v;
      barrier(CLK_LOCAL_MEM_FENCE);
      const float other = shared[lid ^ stride];
      v = ((lid & stride) == 0) == ascending ? min(v, other) : max(v, other);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
  }
  y[at] = v;
}

// c = a @ b through tiles in local memory, work-group of 32 x 16.
#define TILE 32
#define ROWS 2

kernel void gemm_tiled(global const float* a, global const float* b, global float* c, uint n, uint k) {
  local float a_tile[TILE][TILE];
  local float b_tile[TILE][TILE];
  const uint x = get_local_id(0), y = get_local_id(1);
  const uint column = get_group_id(0) * TILE + x;
  const uint row = get_group_id(1) * TILE + y * ROWS;
  float sum[ROWS] = {0};
  for (uint start = 0; start < k; start += TILE) {
    for (uint r = 0; r < ROWS; ++r) {
      a_tile[y * ROWS + r][x] = a[(row + r) * k + start + x];
      b_tile[y * ROWS + r][x] = b[(start + y * ROWS + r) * n + column];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < TILE; ++i) {
      const float value = b_tile[i][x];
      for (uint r = 0; r < ROWS; ++r) {
        sum[r] = fma(a_tile[y * ROWS + r][i], value, sum[r]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (uint r = 0; r < ROWS; ++r) {
    c[(row + r) * n + column] = sum[r];
  }
}

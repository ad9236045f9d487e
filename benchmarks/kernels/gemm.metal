// c = a @ b, row-major, all sizes multiples of the tile.
#include <metal_simdgroup_matrix>
#include <metal_stdlib>
using namespace metal;

constant constexpr uint TILE = 32;
constant constexpr uint ROWS = 2;  // rows of c that a thread computes

// Threadgroup of 32 x 16 threads: a 32 x 32 tile of c. Tiles of a and b go through threadgroup memory.
kernel void gemm_tiled(
    device const float* a [[buffer(0)]],
    device const float* b [[buffer(1)]],
    device float* c [[buffer(2)]],
    constant uint& n [[buffer(3)]],
    constant uint& k [[buffer(4)]],
    uint2 tile [[threadgroup_position_in_grid]],
    uint2 lid [[thread_position_in_threadgroup]]) {
  threadgroup float a_tile[TILE][TILE];
  threadgroup float b_tile[TILE][TILE];
  const uint column = tile.x * TILE + lid.x;
  const uint row = tile.y * TILE + lid.y * ROWS;

  float sum[ROWS] = {0};
  for (uint start = 0; start < k; start += TILE) {
    for (uint r = 0; r < ROWS; ++r) {
      a_tile[lid.y * ROWS + r][lid.x] = a[(row + r) * k + start + lid.x];
      b_tile[lid.y * ROWS + r][lid.x] = b[(start + lid.y * ROWS + r) * n + column];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = 0; i < TILE; ++i) {
      const float value = b_tile[i][lid.x];
      for (uint r = 0; r < ROWS; ++r) {
        sum[r] = fma(a_tile[lid.y * ROWS + r][i], value, sum[r]);
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (uint r = 0; r < ROWS; ++r) {
    c[(row + r) * n + column] = sum[r];
  }
}

// Threadgroup of 4 simdgroups: a 64 x 64 tile of c, 32 x 32 of it for each simdgroup as 4 x 4 matrices.
// A simdgroup fetches whole rows of 32, so that its loads are contiguous.
constant constexpr uint BLOCK = 64;
constant constexpr uint DEPTH = 32;

kernel void gemm_simdgroup(
    device const float* a [[buffer(0)]],
    device const float* b [[buffer(1)]],
    device float* c [[buffer(2)]],
    constant uint& n [[buffer(3)]],
    constant uint& k [[buffer(4)]],
    uint2 tile [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd_group_id [[simdgroup_index_in_threadgroup]]) {
  threadgroup float a_tile[BLOCK * DEPTH];
  threadgroup float b_tile[DEPTH * BLOCK];
  const uint row = (simd_group_id / 2) * 32;
  const uint column = (simd_group_id % 2) * 32;
  a += tile.y * BLOCK * k;
  b += tile.x * BLOCK;
  c += tile.y * BLOCK * n + tile.x * BLOCK;

  simdgroup_float8x8 sums[4][4];
  for (uint i = 0; i < 4; ++i) {
    for (uint j = 0; j < 4; ++j) {
      sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
  }
  for (uint start = 0; start < k; start += DEPTH) {
    for (uint r = simd_group_id; r < BLOCK; r += 4) {
      a_tile[r * DEPTH + lane] = a[r * k + start + lane];
    }
    for (uint r = simd_group_id; r < DEPTH; r += 4) {
      b_tile[r * BLOCK + lane] = b[(start + r) * n + lane];
      b_tile[r * BLOCK + 32 + lane] = b[(start + r) * n + 32 + lane];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint depth = 0; depth < DEPTH; depth += 8) {
      simdgroup_float8x8 left[4], right[4];
      for (uint i = 0; i < 4; ++i) {
        simdgroup_load(left[i], a_tile + (row + i * 8) * DEPTH + depth, DEPTH);
        simdgroup_load(right[i], b_tile + depth * BLOCK + column + i * 8, BLOCK);
      }
      for (uint i = 0; i < 4; ++i) {
        for (uint j = 0; j < 4; ++j) {
          simdgroup_multiply_accumulate(sums[i][j], left[i], right[j], sums[i][j]);
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (uint i = 0; i < 4; ++i) {
    for (uint j = 0; j < 4; ++j) {
      simdgroup_store(sums[i][j], c + (row + i * 8) * n + column + j * 8, n);
    }
  }
}

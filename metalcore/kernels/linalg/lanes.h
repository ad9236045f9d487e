// A batch of small matrices, one to a thread: a simdgroup has 32 of them, and every step is the same in all lanes, so
// nothing is shared between threads and no lane waits. A thread keeps its matrix in an array of its own.
// Memory holds one matrix after the other. 32 elements of each are read at a time and turned in threadgroup memory, so
// that reads and writes run along memory. Threads beyond the last matrix get a copy of it and store nothing.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant constexpr uint LANES = 32;
constant constexpr uint LANE_PITCH = 33;
constant constexpr uint LANE_TILE = LANES * LANE_PITCH;  // elements of threadgroup memory that a simdgroup needs

// `to[i * pitch + j]` gets element (i, j) of the thread's matrix, of `rows` x `columns` numbers. `first` is the matrix
// of lane 0.
template <typename T>
inline void load_lanes(device const T* from, thread float* to, threadgroup float* tile, uint rows, uint columns,
                       uint pitch, long first, long count, uint lane) {
  const uint size = rows * columns;
  uint place = 0, column = 0;
  for (uint begin = 0; begin < size; begin += LANES) {
    const uint filled = min(LANES, size - begin);
    for (uint m = 0; m < LANES; m++) {
      if (lane < filled) {
        tile[m * LANE_PITCH + lane] = from[min(first + m, count - 1) * size + begin + lane];
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint e = 0; e < filled; e++) {
      to[place + column] = tile[lane * LANE_PITCH + e];
      column++;
      if (column == columns) {
        column = 0;
        place += pitch;
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// The reverse.
template <typename T>
inline void store_lanes(thread const float* from, device T* to, threadgroup float* tile, uint rows, uint columns,
                        uint pitch, long first, long count, uint lane) {
  const uint size = rows * columns;
  uint place = 0, column = 0;
  for (uint begin = 0; begin < size; begin += LANES) {
    const uint filled = min(LANES, size - begin);
    for (uint e = 0; e < filled; e++) {
      tile[lane * LANE_PITCH + e] = from[place + column];
      column++;
      if (column == columns) {
        column = 0;
        place += pitch;
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint m = 0; m < LANES && first + m < count; m++) {
      if (lane < filled) {
        to[(first + m) * size + begin + lane] = T(tile[m * LANE_PITCH + lane]);
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

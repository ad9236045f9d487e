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

// Matrices of SIZE elements, a number that the compiler knows: every thread reads or writes its own, with no detour.
template <typename T, uint SIZE>
inline void load_small(device const T* from, thread float* to, uint rows, uint columns, uint pitch, uint lane) {
  uint e = 0;
  for (uint i = 0; i < rows; i++) {
    for (uint j = 0; j < columns; j++) {
      to[i * pitch + j] = from[lane * SIZE + e];
      e++;
    }
  }
}

template <typename T, uint SIZE>
inline void store_small(thread const float* from, device T* to, uint rows, uint columns, uint pitch, uint lane) {
  uint e = 0;
  for (uint i = 0; i < rows; i++) {
    for (uint j = 0; j < columns; j++) {
      to[lane * SIZE + e] = T(from[i * pitch + j]);
      e++;
    }
  }
}

// `to[i * pitch + j]` gets element (i, j) of the thread's matrix, of `rows` x `columns` numbers. `first` is the matrix
// of lane 0.
template <typename T>
inline void load_lanes(device const T* from, thread float* to, threadgroup float* tile, uint rows, uint columns,
                       uint pitch, long first, long count, uint lane) {
  const uint size = rows * columns;
  if (first + LANES <= count && (size == 4 || size == 8 || size == 16)) {
    device const T* own = from + first * size;
    if (size == 4) {
      load_small<T, 4>(own, to, rows, columns, pitch, lane);
    } else if (size == 8) {
      load_small<T, 8>(own, to, rows, columns, pitch, lane);
    } else {
      load_small<T, 16>(own, to, rows, columns, pitch, lane);
    }
    return;
  }
  uint place = 0, column = 0;
  for (uint begin = 0; begin < size; begin += LANES) {
    const uint filled = min(LANES, size - begin);
    for (uint m = 0; m < LANES; m++) {
      T x = 0;  // a store without a mask is faster on CPUs
      if (lane < filled) {
        x = from[min(first + m, count - 1) * size + begin + lane];
      }
      tile[m * LANE_PITCH + lane] = x;
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
  if (first + LANES <= count && (size == 4 || size == 8 || size == 16)) {
    device T* own = to + first * size;
    if (size == 4) {
      store_small<T, 4>(from, own, rows, columns, pitch, lane);
    } else if (size == 8) {
      store_small<T, 8>(from, own, rows, columns, pitch, lane);
    } else {
      store_small<T, 16>(from, own, rows, columns, pitch, lane);
    }
    return;
  }
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

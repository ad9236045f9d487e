// Rank-2 updates of matrices that are brought to a form with two diagonals, together with the product that the next step
// needs: one pass over the matrix for both.
#pragma once
#include "group.h"
#include "linalg/pitch.h"

constant constexpr uint ROWS = 4;  // that a pass takes at once

// What waits for a matrix: row r loses u[r] y + x[r] v.
template <typename T>
struct Update {
  device const T* u;
  device const T* y;
  device const T* x;
  device const T* v;
};

// Rows and columns of a matrix, both to before their end; columns begin and end at multiples of 32.
struct Part {
  uint row;
  uint rows_end;
  uint column;
  uint columns_end;
  uint pitch;
};

template <uint COUNT, typename T>
inline void update_rows(device T* a, Update<T> update, device const T* weights, device T* sums, uint row, Part part,
                        uint lane) {
  float left[COUNT], right[COUNT], weight[COUNT];
  for (uint i = 0; i < COUNT; i++) {
    left[i] = update.u[row + i];
    right[i] = update.x[row + i];
    weight[i] = weights[row + i];
  }
  a += long(row) * part.pitch;
  for (uint base = part.column; base < part.columns_end; base += WIDTH) {
    const uint j = base + lane;
    const float y = update.y[j], v = update.v[j];
    float sum = sums[j];
    for (uint i = 0; i < COUNT; i++) {
      const float value = a[i * part.pitch + j] - (left[i] * y + right[i] * v);
      a[i * part.pitch + j] = value;
      sum += weight[i] * value;
    }
    sums[j] = sum;
  }
}

// The update of a part of the matrix, and the sum of its rows, weighted by `weights`, added to `sums`, which each simdgroup
// has of its own.
template <typename T>
inline void update_and_sum(device T* a, Update<T> update, device const T* weights, device T* sums, Part part, Lane at) {
  for (uint r = part.row + at.group * ROWS; r < part.rows_end; r += at.groups * ROWS) {
    if (r + ROWS <= part.rows_end) {
      update_rows<ROWS>(a, update, weights, sums, r, part, at.lane);
    } else {
      for (uint i = r; i < part.rows_end; i++) {
        update_rows<1>(a, update, weights, sums, i, part, at.lane);
      }
    }
  }
}

// One thread takes V neighbouring elements; the last one takes what is left over, one by one.
// A row of the grid covers ROW elements, so that thread positions fit 32 bits: longer arrays take several rows.
#pragma once
#include "wide.h"

constant constexpr long ROW = 1l << 30;

// The part of an array that one row of the grid covers.
struct Part {
  long first;
  uint count;
};

inline Part part(uint3 position, long count) {
  const long first = position.y * ROW;
  return {first, uint(min(count - first, ROW))};
}

// Body has `template <uint V> void step(uint i)`: elements V i to V i + V - 1.
template <uint V, typename Body>
inline void sweep(Body body, uint i, uint count) {
  if (i < count / V) {
    body.template step<V>(i);
  } else if (V > 1 && i == count / V) {
    for (uint j = i * V; j < count; j++) {
      body.template step<1>(j);
    }
  }
}

// Many tensors in one launch: arrays of addresses, a table of chunks, and a row of numbers for each tensor.
// A threadgroup takes one chunk, so that tensors of any size share the work evenly.
#pragma once
#include <metal_stdlib>
using namespace metal;

struct Chunk {
  long tensor;  // which one
  long first;   // first element of the chunk
  uint count;   // elements in it
};

inline Chunk chunk_of(device const long* chunks, uint at) {
  device const long* row = chunks + 3 * long(at);
  return {row[0], row[1], uint(row[2])};
}

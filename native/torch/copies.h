// Copies of blocks of paged caches by a blit encoder.
#pragma once
#include "metal.h"

namespace metalcore {

struct Copy {
  Object source;
  uint64_t source_offset;
  Object target;
  uint64_t target_offset;
  uint64_t size;  // all three numbers are multiples of 4, as macOS asks
};

// All of them or none. torch ends its compute encoder before a blit, as it does for its own copies; the blit encoder is
// ours, and ended here.
int copy(const Copy* copies, uint64_t count, const Error& error);

}  // namespace metalcore

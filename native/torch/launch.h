// Launches of compute kernels on the current stream of torch: encoded into its encoder, inside its queue, never ended,
// never committed, never waited for.
#pragma once
#include "pipelines.h"

namespace metalcore {

enum Kind : uint64_t { kBuffer = 1, kBytes = 2, kAddresses = 3 };

// What fills one buffer of a kernel: a buffer from an offset on, the bytes themselves, or an array of addresses.
struct Argument {
  uint64_t kind;
  uint64_t value;   // the buffer (an id), the bytes, or a pointer to pairs {buffer, offset}
  uint64_t offset;  // of a buffer, in bytes
  uint64_t length;  // bytes that the kernel may touch; of addresses, how many
};

struct Launch {
  const Pipeline* pipeline;
  const Argument* arguments;
  uint64_t argument_count;
  Size groups, group_size;
};

constexpr uint64_t kMostBuffers = 31, kMostBytes = 4096, kMostGridThreads = 1ull << 32;

// All of them, in their order, or none: what Metal would drop or misread is refused before the first is encoded.
int encode(const Launch* launches, uint64_t count, const Error& error);

}  // namespace metalcore

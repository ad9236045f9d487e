// Pipelines of kernel variants. The key of one is the hash of its source, its instantiation, its name and the values of
// its function constants; variants that differ in these values alone share a library.
#pragma once
#include "metal.h"

namespace metalcore {

struct Constant {
  uint32_t type;   // MTLDataType
  uint32_t index;  // as in [[function_constant(index)]]
  uint64_t value;  // its bytes, the first ones
};

struct Variant {
  const char* label;  // for errors
  const char* file;   // kernels/<file>.metal
  uint64_t hash;      // of that text, its headers put in
  const char* source;  // the text; null where the extension holds it
  const char* instantiation;
  const char* entry_point;
  const Constant* constants;
  uint64_t constant_count;
  uint64_t is_fast_math;
};

struct Pipeline {
  Object state;
  uint64_t most_threads;  // maxTotalThreadsPerThreadgroup
  uint64_t width;         // threadExecutionWidth
  const char* label;
};

// What the library's kernels are written for.
constexpr uint64_t kWidth = 32;

// The text of kernels/<file>.metal that was built in, and the library that Apple's compiler made of all of them, which
// is empty where it was built without a Mac. Written by native/tools/embed.py.
struct EmbeddedSource {
  const char* file;
  uint64_t hash;
  const char* text;
};
extern "C" {
extern const EmbeddedSource metalcore_sources[];
extern const uint64_t metalcore_source_count;
extern const unsigned char metalcore_metallib[];
extern const uint64_t metalcore_metallib_size;
}

const EmbeddedSource* embedded(const char* file, uint64_t hash);

// Null with the error said.
const Pipeline* find_pipeline(const Variant& variant, const Error& error);

}  // namespace metalcore

// What Python calls, by ctypes: metalcore/runtimes/native_torch.py has the same structs.
#include "copies.h"
#include "launch.h"

#define METALCORE_API extern "C" __attribute__((visibility("default")))

using namespace metalcore;

METALCORE_API uint32_t metalcore_abi_version() { return 1; }

METALCORE_API int metalcore_has_source(const char* file, uint64_t hash) { return embedded(file, hash) != nullptr; }

METALCORE_API uint64_t metalcore_built_in_bytes() { return metalcore_metallib_size; }

METALCORE_API const Pipeline* metalcore_pipeline(const Variant* variant, char* text, uint64_t size) {
  return find_pipeline(*variant, Error{text, size});
}

METALCORE_API uint64_t metalcore_most_threads(const Pipeline* pipeline) { return pipeline->most_threads; }

METALCORE_API int metalcore_launch(const Launch* launches, uint64_t count, char* text, uint64_t size) {
  return encode(launches, count, Error{text, size});
}

METALCORE_API int metalcore_copy(const Copy* copies, uint64_t count, char* text, uint64_t size) {
  return copy(copies, count, Error{text, size});
}

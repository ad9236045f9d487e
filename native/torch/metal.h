// Metal from plain C++: every call goes through objc_msgSend, and everything that is not ours through one table. On
// Linux the tests fill that table with a stand-in, so that what is tested are these very calls.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace metalcore {

using Object = void*;    // id
using Selector = void*;  // SEL

struct Size {  // MTLSize
  uint64_t x, y, z;
};

// A current stream is torch's; nothing of ours is kept on it between two calls.
struct Host {
  void (*msg_send)();
  Selector (*selector)(const char* name);
  Object (*class_named)(const char* name);
  void* (*push_pool)();  // of objc_autoreleasePoolPush, and its end
  void (*pop_pool)(void* pool);
  void (*sync)(void* queue, void* context, void (*work)(void* context));  // dispatch_sync_f
  Object (*data)(const void* bytes, uint64_t size);                       // dispatch_data_create, without a copy
  void* (*stream)();
  void* (*queue)(void* stream);
  Object (*device)(void* stream);
  Object (*encoder)(void* stream);         // of compute commands; null where torch could not make one
  Object (*command_buffer)(void* stream);  // null where torch could not make one
  void (*end_coalescing)(void* stream);    // torch ends its own compute encoder, as before its own copies
};

// Selectors by the words that they are sent with here.
#define METALCORE_SELECTORS(X)                                                                     \
  X(set_pipeline, "setComputePipelineState:")                                                      \
  X(set_buffer, "setBuffer:offset:atIndex:")                                                       \
  X(set_bytes, "setBytes:length:atIndex:")                                                         \
  X(use_resource, "useResource:usage:")                                                            \
  X(dispatch, "dispatchThreadgroups:threadsPerThreadgroup:")                                       \
  X(length, "length")                                                                              \
  X(gpu_address, "gpuAddress")                                                                     \
  X(max_threads, "maxTotalThreadsPerThreadgroup")                                                  \
  X(width, "threadExecutionWidth")                                                                 \
  X(library_of_source, "newLibraryWithSource:options:error:")                                      \
  X(library_of_data, "newLibraryWithData:error:")                                                  \
  X(function, "newFunctionWithName:constantValues:error:")                                         \
  X(pipeline, "newComputePipelineStateWithFunction:error:")                                        \
  X(set_constant, "setConstantValue:type:atIndex:")                                                \
  X(set_language, "setLanguageVersion:")                                                           \
  X(set_fast_math, "setFastMathEnabled:")                                                          \
  X(make, "new")                                                                                   \
  X(release, "release")                                                                            \
  X(string, "stringWithUTF8String:")                                                               \
  X(description, "localizedDescription")                                                           \
  X(utf8, "UTF8String")                                                                            \
  X(blit_encoder, "blitCommandEncoder")                                                            \
  X(copy, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:")                          \
  X(end_encoding, "endEncoding")

struct Selectors {
#define METALCORE_FIELD(name, text) Selector name;
  METALCORE_SELECTORS(METALCORE_FIELD)
#undef METALCORE_FIELD
};

extern Host host;
extern Selectors selectors;

// A message, with the types that its method has: the caller names the result, the arguments are what is given.
template <typename Result, typename... Arguments>
inline Result send(Object self, Selector name, Arguments... arguments) {
  using Method = Result (*)(Object, Selector, Arguments...);
  return reinterpret_cast<Method>(host.msg_send)(self, name, arguments...);
}

// Threads of Python have no pool of their own for what Metal hands out autoreleased.
class Pool {
 public:
  Pool() : pool_(host.push_pool()) {}
  ~Pool() { host.pop_pool(pool_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

 private:
  void* pool_;
};

inline Object string(const char* text) {
  return send<Object>(host.class_named("NSString"), selectors.string, text);
}

// Where a call says what was wrong. A status of 0 is success.
struct Error {
  char* text;
  uint64_t size;
  int say(const char* format, ...) const __attribute__((format(printf, 2, 3)));  // returns 1
  int say_metal(const char* what, const char* label, Object error) const;        // what Metal itself said
};

}  // namespace metalcore

#include "pipelines.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

namespace metalcore {
namespace {

constexpr uint64_t kMetal31 = (3 << 16) + 1;  // MTLLanguageVersion3_1: bfloat

// One list for each kind: hundreds of entries, looked through when Python has not seen a variant yet.
struct Library {
  Library* next;
  uint64_t hash, is_fast_math;
  char* instantiation;
  Object library;
};
struct Entry {
  Entry* next;
  uint64_t hash, is_fast_math, constant_count;
  char *instantiation, *entry_point;
  Constant* constants;
  Pipeline pipeline;
};
Library* libraries;
Entry* entries;
Object whole;  // the embedded metallib
bool whole_is_tried;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct Locked {
  Locked() { pthread_mutex_lock(&lock); }
  ~Locked() { pthread_mutex_unlock(&lock); }
};

bool same(const char* a, const char* b) { return strcmp(a, b) == 0; }

bool is_of(const Entry& entry, const Variant& variant) {
  return entry.hash == variant.hash && entry.is_fast_math == variant.is_fast_math &&
         same(entry.entry_point, variant.entry_point) && same(entry.instantiation, variant.instantiation) &&
         entry.constant_count == variant.constant_count &&
         memcmp(entry.constants, variant.constants, variant.constant_count * sizeof(Constant)) == 0;
}

// A whole source: as in runtimes/text.py, a GPU's own compiler is told that it is one.
char* joined(const char* text, const char* instantiation) {
  const char* parts[] = {"#define METALCORE_DEVICE 1\n", text, instantiation};
  size_t size = 1;
  for (const char* part : parts) size += strlen(part);
  char* all = static_cast<char*>(malloc(size));
  all[0] = 0;
  for (const char* part : parts) strcat(all, part);
  return all;
}

Object compiled(Object device, const Variant& variant, const Error& error) {
  for (Library* known = libraries; known; known = known->next)
    if (known->hash == variant.hash && known->is_fast_math == variant.is_fast_math &&
        same(known->instantiation, variant.instantiation))
      return known->library;
  const EmbeddedSource* own = embedded(variant.file, variant.hash);
  const char* source = own ? own->text : variant.source;
  if (!source) {
    error.say("kernel '%s': the extension has no text of kernels/%s.metal with this hash: pass it", variant.label,
              variant.file);
    return nullptr;
  }
  Object options = send<Object>(host.class_named("MTLCompileOptions"), selectors.make);
  send<void>(options, selectors.set_language, kMetal31);
  send<void>(options, selectors.set_fast_math, variant.is_fast_math != 0);
  char* text = joined(source, variant.instantiation);
  Object reason = nullptr;
  Object made = send<Object>(device, selectors.library_of_source, string(text), options, &reason);
  free(text);
  send<void>(options, selectors.release);
  if (!made) {
    error.say_metal("Metal cannot compile it", variant.label, reason);
    return nullptr;
  }
  Library* added = static_cast<Library*>(malloc(sizeof(Library)));
  *added = {libraries, variant.hash, variant.is_fast_math, strdup(variant.instantiation), made};
  libraries = added;
  return made;
}

// Its library made by Apple's compiler, where that was built in, holds this very text and was asked for the same maths.
Object built_in(Object device, const Variant& variant) {
  if (!metalcore_metallib_size || variant.is_fast_math || !embedded(variant.file, variant.hash)) return nullptr;
  if (!whole_is_tried) {
    whole_is_tried = true;
    Object reason = nullptr;
    Object data = host.data(metalcore_metallib, metalcore_metallib_size);
    whole = send<Object>(device, selectors.library_of_data, data, &reason);
  }
  return whole;
}

Object function_of(Object library, const Variant& variant, Object* reason) {
  Object values = send<Object>(host.class_named("MTLFunctionConstantValues"), selectors.make);
  for (uint64_t i = 0; i < variant.constant_count; i++) {
    const Constant& constant = variant.constants[i];
    send<void>(values, selectors.set_constant, static_cast<const void*>(&constant.value), uint64_t(constant.type),
               uint64_t(constant.index));
  }
  Object function = send<Object>(library, selectors.function, string(variant.entry_point), values, reason);
  send<void>(values, selectors.release);
  return function;
}

const Pipeline* made(const Variant& variant, const Error& error) {
  Pool pool;
  Object device = host.device(host.stream());
  Object reason = nullptr, function = nullptr;
  if (Object library = built_in(device, variant)) function = function_of(library, variant, &reason);
  if (!function) {  // a metallib has the variants that were known when it was built
    Object library = compiled(device, variant, error);
    if (!library) return nullptr;
    reason = nullptr;
    function = function_of(library, variant, &reason);
  }
  if (!function) {
    error.say_metal("it has no such function", variant.label, reason);
    return nullptr;
  }
  reason = nullptr;
  Object state = send<Object>(device, selectors.pipeline, function, &reason);
  send<void>(function, selectors.release);
  if (!state) {
    error.say_metal("Metal makes no pipeline of it", variant.label, reason);
    return nullptr;
  }
  const uint64_t width = send<uint64_t>(state, selectors.width);
  if (width != kWidth) {
    send<void>(state, selectors.release);
    error.say("kernel '%s': this GPU runs %llu threads in lockstep, and the kernels are written for %llu",
              variant.label, (unsigned long long)width, (unsigned long long)kWidth);
    return nullptr;
  }
  const uint64_t size = variant.constant_count * sizeof(Constant);
  Constant* constants = static_cast<Constant*>(malloc(size + 1));
  memcpy(constants, variant.constants, size);
  Entry* added = static_cast<Entry*>(malloc(sizeof(Entry)));
  *added = {entries, variant.hash, variant.is_fast_math, variant.constant_count, strdup(variant.instantiation),
            strdup(variant.entry_point), constants,
            Pipeline{state, send<uint64_t>(state, selectors.max_threads), width, strdup(variant.label)}};
  entries = added;
  return &entries->pipeline;
}

}  // namespace

const EmbeddedSource* embedded(const char* file, uint64_t hash) {
  for (uint64_t i = 0; i < metalcore_source_count; i++)
    if (metalcore_sources[i].hash == hash && same(metalcore_sources[i].file, file)) return &metalcore_sources[i];
  return nullptr;
}

const Pipeline* find_pipeline(const Variant& variant, const Error& error) {
  Locked locked;
  for (const Entry* entry = entries; entry; entry = entry->next)
    if (is_of(*entry, variant)) return &entry->pipeline;
  return made(variant, error);
}

}  // namespace metalcore

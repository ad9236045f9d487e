#include "metal.h"

#include <stdarg.h>
#include <stdio.h>

namespace metalcore {

Host host;
Selectors selectors;

int Error::say(const char* format, ...) const {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, size, format, arguments);
  va_end(arguments);
  return 1;
}

int Error::say_metal(const char* what, const char* label, Object error) const {
  Object description = error ? send<Object>(error, selectors.description) : nullptr;
  const char* words = description ? send<const char*>(description, selectors.utf8) : nullptr;
  return say("kernel '%s': %s: %s", label, what, words ? words : "Metal gave no reason");
}

}  // namespace metalcore

extern "C" __attribute__((visibility("default"))) void metalcore_set_host(const metalcore::Host* host) {
  metalcore::host = *host;
#define METALCORE_FIND(name, text) metalcore::selectors.name = host->selector(text);
  METALCORE_SELECTORS(METALCORE_FIND)
#undef METALCORE_FIND
}

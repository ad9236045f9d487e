// Stands in for Apple's header of this name: what metal-cpp asks of it.
#pragma once
#include <stdint.h>
typedef double CFTimeInterval;
typedef const struct __CFString* CFStringRef;

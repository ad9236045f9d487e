// What Metal's compiler predefines and its headers define as macros, constants aside (stubs/macros.h has those).
#pragma once

#ifndef __METAL__
#define __METAL__ 1
#endif
#ifndef __METAL_VERSION__
#define __METAL_VERSION__ 320
#endif
#ifndef __HAVE_BFLOAT__
#define __HAVE_BFLOAT__ 1
#endif

#define METAL_FUNC inline __attribute__((__always_inline__))
#define METAL_CONST_ARG(x)
#define METAL_ASM(...) __asm__(__VA_ARGS__)

// The last argument of the `__metal_*` math builtins.
#define __METAL_PRECISE_MATH__ 0
#define __METAL_FAST_MATH__ 1
#ifndef __METAL_MAYBE_FAST_MATH__
#define __METAL_MAYBE_FAST_MATH__ __METAL_PRECISE_MATH__
#endif

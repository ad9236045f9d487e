// Metal's address spaces as the attributes of clang's SYCL device mode. A named space converts to the default one, so methods work in each.
#pragma once

#define __mc_device __attribute__((opencl_global))
#define __mc_threadgroup __attribute__((opencl_local))
#define __mc_constant const __attribute__((opencl_global_device))
#define __mc_thread

// A call that the lockstep pass lowers. `__mc_external` may not be moved or merged, `__mc_fixed` depends on its arguments alone.
#define __mc_external extern "C" [[clang::sycl_external]] __attribute__((convergent, nothrow))
#define __mc_fixed extern "C" [[clang::sycl_external]] __attribute__((convergent, nothrow, const))

// Everything in these headers is inlined and takes the debug line of the user's call.
#define __mc_begin                                                                     \
  _Pragma("clang attribute push(__attribute__((always_inline)), apply_to = function)") \
  _Pragma("clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))")
#define __mc_end _Pragma("clang attribute pop") _Pragma("clang attribute pop")

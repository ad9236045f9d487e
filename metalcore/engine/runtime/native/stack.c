/* Kernels run on a stack of the worker's own: private arrays and spilled values lie between its guard pages, and a
 * kernel with large ones does not depend on what the calling thread has. */
#include "runtime.h"

/* AddressSanitizer wants to be told of another stack (scripts/test-sanitized-runtime). */
#if defined(__SANITIZE_ADDRESS__)
extern void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
extern void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, size_t* size);
#else
#define __sanitizer_start_switch_fiber(fake_stack, bottom, size) ((void)(fake_stack), (void)(bottom), (void)(size))
#define __sanitizer_finish_switch_fiber(fake_stack, bottom, size) ((void)(fake_stack), (void)(bottom), (void)(size))
#endif

typedef struct mc_entry {
  mc_run_fn run;
  mc_launch* launch;
  mc_worker* worker;
  const uint32_t* place;
} mc_entry;

static void enter(void* argument) {
  const mc_entry* e = argument;
  const uint32_t* at = e->place;
  const void* bottom = 0;
  size_t size = 0;
  __sanitizer_finish_switch_fiber((void*)0, &bottom, &size);
  e->run(e->launch, e->worker, at[0], at[1], at[2], at[3], at[4], at[5], at[6]);
  __sanitizer_start_switch_fiber((void**)0, bottom, size);
}

/* Calls function(argument) with the stack pointer at `top`. The frame pointer keeps the old one, for debuggers too.
 * Not static: the compiler does not see that its arguments are used, and would leave them out. */
__attribute__((naked, noinline, visibility("hidden"))) void mc_switch_stack(void* argument, void (*function)(void*),
                                                                            char* top) {
#if defined(__x86_64__)
  __asm__(
      "pushq %rbp\n"
      "movq %rsp, %rbp\n"
      "movq %rdx, %rsp\n"
      "callq *%rsi\n"
      "movq %rbp, %rsp\n"
      "popq %rbp\n"
      "retq\n");
#elif defined(__aarch64__)
  __asm__(
      "stp x29, x30, [sp, #-16]!\n"
      "mov x29, sp\n"
      "mov sp, x2\n"
      "blr x1\n"
      "mov sp, x29\n"
      "ldp x29, x30, [sp], #16\n"
      "ret\n");
#endif
}

void mc_run_on_stack(const mc_mapping* stack, mc_run_fn run, mc_launch* launch, mc_worker* worker,
                     const uint32_t place[7]) {
  mc_entry entry = {run, launch, worker, place};
  void* fake_stack = 0;
  __sanitizer_start_switch_fiber(&fake_stack, stack->start, stack->size);
  mc_switch_stack(&entry, enter, stack->start + stack->size);
  __sanitizer_finish_switch_fiber(fake_stack, (const void**)0, (size_t*)0);
}

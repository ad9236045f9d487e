/* The few calls of the C library that the runtime needs, declared here so that no system header is needed to build. */
#ifndef METALCORE_OS_H
#define METALCORE_OS_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__linux__) && !defined(__APPLE__)
#error "the native runtime is written for Linux and macOS"
#endif

typedef unsigned long mc_pthread;
typedef struct { _Alignas(16) unsigned char opaque[128]; } mc_pthread_attr; /* larger than any libc's */
typedef struct { unsigned long bits[16]; } mc_sigset;
struct mc_timespec {
  int64_t seconds;
  int64_t nanoseconds;
};

extern int pthread_create(mc_pthread*, const mc_pthread_attr*, void* (*)(void*), void*);
extern int pthread_attr_init(mc_pthread_attr*);
extern int pthread_attr_destroy(mc_pthread_attr*);
extern int pthread_attr_setstacksize(mc_pthread_attr*, size_t);
extern int pthread_attr_setdetachstate(mc_pthread_attr*, int);
extern mc_pthread pthread_self(void);
extern int sched_yield(void);
extern int pthread_sigmask(int, const mc_sigset*, mc_sigset*);
extern int clock_gettime(int, struct mc_timespec*);
extern void* mmap(void*, size_t, int, int, int, long);
extern int munmap(void*, size_t);
extern int mprotect(void*, size_t, int);
extern void* memcpy(void*, const void*, size_t);
extern void* memmove(void*, const void*, size_t);
extern void* memset(void*, int, size_t);

#if defined(__APPLE__)
extern int __ulock_wait(uint32_t, void*, uint64_t, uint32_t microseconds);
extern int __ulock_wake(uint32_t, void*, uint64_t);
extern int pthread_setname_np(const char*);
#define MC_MAP_FLAGS (0x02 | 0x1000 | 0x40) /* private, anonymous, no reserve */
#define MC_CLOCK 8 /* CLOCK_UPTIME_RAW: as Linux's, it stands still while the machine sleeps */
#define MC_DETACHED 2
#define MC_SIG_SETMASK 3
#else
extern long syscall(long, ...);
#define MC_MAP_FLAGS (0x02 | 0x20 | 0x4000)
#define MC_CLOCK 1 /* CLOCK_MONOTONIC */
#define MC_DETACHED 1
#define MC_SIG_SETMASK 2
#endif

#define MC_PAGE 65536u /* a multiple of every page size in use: 4, 16 and 64 KiB */
#define MC_MAP_FAILED ((void*)-1)

static inline void* mc_map(size_t bytes) { /* to read and to write */
  void* p = mmap(0, bytes, 1 | 2, MC_MAP_FLAGS, -1, 0);
  return p == MC_MAP_FAILED ? 0 : p;
}

static inline uint64_t mc_now(void) { /* nanoseconds */
  struct mc_timespec t;
  clock_gettime(MC_CLOCK, &t);
  return (uint64_t)t.seconds * 1000000000u + (uint64_t)t.nanoseconds;
}

static inline void mc_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Stores that went past the cache are seen by whoever sees what this thread writes next. */
static inline void mc_settle_stores(void) {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

/* Kernels run with the floating-point environment that IEEE 754 starts with, whatever the program has set: rounding to
 * nearest, denormals kept, no traps. */
static inline uint64_t mc_set_float_environment(uint64_t bits) {
#if defined(__x86_64__)
  uint64_t before = __builtin_ia32_stmxcsr();
  if (before != bits) __builtin_ia32_ldmxcsr((uint32_t)bits);
#else
  uint64_t before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  if (before != bits) __asm__ volatile("msr fpcr, %0" : : "r"(bits));
#endif
  return before;
}

#if defined(__x86_64__)
#define MC_FLOAT_DEFAULT 0x1f80u
#else
#define MC_FLOAT_DEFAULT 0u
#endif

/* Waiting until a word is no longer `expected`; it may end sooner for any reason, so whoever waits looks again. */
#if defined(__APPLE__)
#define MC_ULOCK 0x01000001u /* compare and wait, leave errno alone */
#define MC_ULOCK_ALL 0x100u

static inline void mc_futex_wait(uint32_t* word, uint32_t expected) { __ulock_wait(MC_ULOCK, word, expected, 0); }

/* No longer than so many nanoseconds. */
static inline void mc_futex_wait_for(uint32_t* word, uint32_t expected, uint64_t time) {
  uint64_t microseconds = time / 1000u + 1u; /* 0 would mean for ever */
  __ulock_wait(MC_ULOCK, word, expected, microseconds < 0xffffffffu ? (uint32_t)microseconds : 0xffffffffu);
}

static inline void mc_futex_wake(uint32_t* word, uint32_t count) {
  __ulock_wake(count == 1 ? MC_ULOCK : MC_ULOCK | MC_ULOCK_ALL, word, 0); /* some, or all: more than are wanted may come */
}

static inline void mc_name_thread(const char* name) { pthread_setname_np(name); }
#else
#if defined(__x86_64__)
#define MC_SYS_FUTEX 202
#define MC_SYS_PRCTL 157
#else
#define MC_SYS_FUTEX 98
#define MC_SYS_PRCTL 167
#endif

static inline void mc_futex_wait(uint32_t* word, uint32_t expected) {
  syscall(MC_SYS_FUTEX, word, 128 /* wait, private */, expected, (void*)0, (void*)0, 0);
}

/* No longer than so many nanoseconds. */
static inline void mc_futex_wait_for(uint32_t* word, uint32_t expected, uint64_t time) {
  struct mc_timespec t = {(int64_t)(time / 1000000000u), (int64_t)(time % 1000000000u)};
  syscall(MC_SYS_FUTEX, word, 128, expected, &t, (void*)0, 0);
}

static inline void mc_futex_wake(uint32_t* word, uint32_t count) {
  syscall(MC_SYS_FUTEX, word, 129 /* wake, private */, count, (void*)0, (void*)0, 0);
}

static inline void mc_name_thread(const char* name) { syscall(MC_SYS_PRCTL, 15, name, 0, 0, 0); }
#endif

static inline void mc_yield(void) { sched_yield(); }

#define MC_LOAD_ACQ(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define MC_LOAD_SEQ(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define MC_STORE_REL(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define MC_STORE_SEQ(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define MC_ADD(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)

#endif

/* What emitted kernels and the C runtime share. runtime/layout.py mirrors every offset; a test compares the two. */
#ifndef METALCORE_ABI_H
#define METALCORE_ABI_H

#include <stddef.h>
#include <stdint.h>

#define MC_BUFFERS 31
#define MC_LANES 32
#define MC_FRAME_ALIGN 128
#define MC_GROUP_MEMORY_ALIGN 64

enum mc_access_kind { MC_LOAD = 0, MC_STORE = 1, MC_ATOMIC = 2, MC_ATOMIC_LOAD = 3 };

/* Why an access of a known place was refused: added to the kind in mc_error and in events of sanitize mode. */
enum mc_refusal { MC_READ_ONLY = 1 << 8, MC_MISALIGNED = 2 << 8 };

/* No memory for the frames of its simdgroups; they came to different barriers. */
enum mc_left_out { MC_NO_FRAMES = 1, MC_APART_AT_BARRIERS = 2 };

typedef struct mc_launch mc_launch;
typedef struct mc_worker mc_worker;
typedef struct mc_sanitizer mc_sanitizer;

/* One access of a simdgroup of which at least one active lane is out of bounds, or whose pointer is of unknown origin.
 * lo[i] == hi[i] == 0 means "unknown origin" (a pointer loaded from memory): any region of the launch may hold it.
 * MC_LOAD fills data[] of every lane in mask (0 where out of bounds); MC_STORE writes the lanes that are in bounds.
 * MC_ATOMIC and MC_ATOMIC_LOAD do neither: they only record the lanes that are out of bounds and zero their data[] (data may
 * be null); the kernel performs the operation of the lanes that are in bounds itself.
 * Writes to memory of unknown origin need a region that may be written. */
typedef struct mc_access {
  uint32_t site;         /* index into NativeKernel.sites */
  uint32_t mask;         /* bit i: lane i is active */
  uint32_t elem_size;    /* bytes of one lane's access */
  uint32_t is_store;     /* enum mc_access_kind */
  uint32_t base_thread;  /* index in the threadgroup of lane 0 */
  uint32_t group[3];     /* threadgroup_position_in_grid */
  const char* addr[MC_LANES];
  const char* lo[MC_LANES]; /* the access must lie in [lo, hi) */
  const char* hi[MC_LANES];
  void* data;            /* 32 elements, elem_size bytes apart */
} mc_access;

/* The first error of a launch, and how many there were. */
typedef struct mc_error {
  uint32_t claimed; /* 0: nothing happened */
  uint32_t site;
  uint32_t kind; /* enum mc_access_kind, enum mc_refusal */
  uint32_t group[3];
  uint32_t thread_index; /* index in the threadgroup */
  uint64_t count;        /* lanes that failed, the first one included */
  const char* addr;
  const char* lo;
  const char* hi;
} mc_error;

/* What an assertion or a check of sanitize mode found at one place: the first thread, and how many there were. */
typedef struct mc_finding {
  uint64_t count;
  uint32_t group[3];
  uint32_t thread_index; /* index in the threadgroup */
} mc_finding;

/* What 32 threads said at one place: a line of os_log, or a value in the line before. */
typedef struct mc_saying {
  uint32_t place;
  uint32_t lanes;
  uint32_t group[3];
  uint32_t first_thread; /* index in the threadgroup of lane 0 */
  uint64_t values[MC_LANES];
} mc_saying;

/* What the threads of a launch said, in no order; `count` goes on where there is no room. */
typedef struct mc_said {
  uint64_t capacity;
  uint64_t count;
  mc_saying sayings[];
} mc_said;

/* Where the word is not 0 the kernel calls attend, which may take its time, and leaves if that is not 0. */
typedef struct mc_stop {
  volatile uint32_t word;
  volatile uint32_t zero; /* always 0 */
  int (*attend)(struct mc_stop*);
} mc_stop;

/* Regions overlap where views of one array are bound: what any of them allows is allowed. */
typedef struct mc_region {
  const char* lo;
  const char* hi;
  uint64_t is_writable;
} mc_region;

struct mc_launch {
  void* buffers[MC_BUFFERS];    /* address bound to [[buffer(i)]]; 0 where nothing is bound */
  uint64_t sizes[MC_BUFFERS];   /* bytes reachable from it (upwards) */
  uint32_t grid[3];             /* threads_per_grid */
  uint32_t groups[3];           /* threadgroups_per_grid */
  uint32_t group[3];            /* dispatch_threads_per_threadgroup */
  uint32_t tg_offset[MC_BUFFERS]; /* byte offset of [[threadgroup(i)]] inside group memory, behind the static part */
  uint32_t tg_size[MC_BUFFERS];
  uint32_t group_memory_size;   /* static + dynamic, bytes */
  mc_stop* stop;                /* read in every loop: whether to leave */
  void (*slow_access)(mc_launch*, const mc_access*); /* bounds-failing accesses; records the first error */
  char* (*grow_frames)(mc_worker*, uint64_t bytes);  /* coroutine arena is full: a new block, 128-byte aligned; it also
                                                        sets frame_cur (behind that block) and frame_end */
  const mc_region* regions;     /* all known allocations, sorted by lo, for pointers loaded from memory */
  uint64_t n_regions;
  mc_error error;
  void (*report)(mc_launch*, const mc_worker*, uint32_t place, uint32_t lanes, uint32_t first_thread);
  mc_finding* findings; /* one for each place */
  mc_sanitizer* sanitizer; /* sanitize mode, else null */
  uint64_t is_cached; /* 0: so much is written that rows of stores go past the cache */
  uint64_t stack_size; /* bytes that mc_run may need of its stack */
  uint64_t left_out;   /* enum mc_left_out: why a threadgroup was left out, or left in the middle */
  uint64_t read_only; /* bit i: what is bound to [[buffer(i)]] may not be written */
  void (*tell)(mc_launch*, const mc_worker*, uint32_t place, uint32_t lanes, uint32_t first_thread, const uint64_t* values);
  mc_said* said; /* null: nobody listens */
};

/* One per CPU thread that runs a launch. frame_cur is 128-byte aligned when mc_run is entered and may be moved freely:
 * the runtime puts it back before each call of mc_run. */
struct mc_worker {
  mc_launch* launch;
  char* group_memory; /* 64-byte aligned, group_memory_size bytes; its content is undefined at the start of a group */
  char* frame_cur;
  char* frame_end;
  uint32_t group_pos[3]; /* for the kernel's own use */
};

/* Exported by every kernel's .so: runs threadgroups (gx0..gx1-1, gy, gz), all of size w x h x d (edge groups are
 * smaller). */
typedef void (*mc_run_fn)(mc_launch*, mc_worker*, uint32_t gx0, uint32_t gx1, uint32_t gy, uint32_t gz, uint32_t w,
                          uint32_t h, uint32_t d);

#define MC_AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)
MC_AT(mc_access, mask, 4);
MC_AT(mc_access, elem_size, 8);
MC_AT(mc_access, is_store, 12);
MC_AT(mc_access, base_thread, 16);
MC_AT(mc_access, group, 20);
MC_AT(mc_access, addr, 32);
MC_AT(mc_access, lo, 288);
MC_AT(mc_access, hi, 544);
MC_AT(mc_access, data, 800);
_Static_assert(sizeof(mc_access) == 808, "mc_access");
MC_AT(mc_error, site, 4);
MC_AT(mc_error, kind, 8);
MC_AT(mc_error, group, 12);
MC_AT(mc_error, thread_index, 24);
MC_AT(mc_error, count, 32);
MC_AT(mc_error, addr, 40);
MC_AT(mc_error, lo, 48);
MC_AT(mc_error, hi, 56);
_Static_assert(sizeof(mc_error) == 64, "mc_error");
MC_AT(mc_finding, group, 8);
MC_AT(mc_finding, thread_index, 20);
_Static_assert(sizeof(mc_finding) == 24, "mc_finding");
MC_AT(mc_region, is_writable, 16);
_Static_assert(sizeof(mc_region) == 24, "mc_region");
MC_AT(mc_stop, attend, 8);
MC_AT(mc_launch, buffers, 0);
MC_AT(mc_launch, sizes, 248);
MC_AT(mc_launch, grid, 496);
MC_AT(mc_launch, groups, 508);
MC_AT(mc_launch, group, 520);
MC_AT(mc_launch, tg_offset, 532);
MC_AT(mc_launch, tg_size, 656);
MC_AT(mc_launch, group_memory_size, 780);
MC_AT(mc_launch, stop, 784);
MC_AT(mc_launch, slow_access, 792);
MC_AT(mc_launch, grow_frames, 800);
MC_AT(mc_launch, regions, 808);
MC_AT(mc_launch, n_regions, 816);
MC_AT(mc_launch, error, 824);
MC_AT(mc_launch, report, 888);
MC_AT(mc_launch, findings, 896);
MC_AT(mc_launch, sanitizer, 904);
MC_AT(mc_launch, is_cached, 912);
MC_AT(mc_launch, stack_size, 920);
MC_AT(mc_launch, left_out, 928);
MC_AT(mc_launch, read_only, 936);
MC_AT(mc_launch, tell, 944);
MC_AT(mc_launch, said, 952);
_Static_assert(sizeof(mc_launch) == 960, "mc_launch");
_Static_assert(sizeof(mc_saying) == 280, "mc_saying");
MC_AT(mc_said, sayings, 16);
MC_AT(mc_worker, group_memory, 8);
MC_AT(mc_worker, frame_cur, 16);
MC_AT(mc_worker, frame_end, 24);
MC_AT(mc_worker, group_pos, 32);
_Static_assert(sizeof(mc_worker) == 48, "mc_worker");

#endif

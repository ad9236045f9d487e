/* What the files of the runtime share among themselves. */
#ifndef METALCORE_RUNTIME_H
#define METALCORE_RUNTIME_H

#include "abi.h"
#include "os.h"

#define MC_EXPORT __attribute__((visibility("default")))
#define MC_MAX_BLOCKS 40
#define MC_MAX_WORKERS 1024

/* What an argument must be for python.c to bind it. layout.py mirrors it. */
enum mc_rule_kind { MC_RULE_NONE = 0, MC_RULE_ARRAY = 1, MC_RULE_FLOAT = 2, MC_RULE_INTEGER = 3 };
/* How mc_call_objects takes arrays: of the declared types; of any type to the end of their storage, as
 * torch.mps.compile_shader has it; or their elements, of types that the caller has compared, where numbers are arrays. */
enum { MC_DECLARED, MC_STORAGE, MC_ELEMENTS };

typedef struct mc_rule {
  uint32_t kind;
  uint32_t format;     /* array: its one format character */
  uint32_t misaligned; /* array: bits of the address that must be 0 */
  uint32_t size;       /* number: bytes; array: DLPack's code << 8 | bits of its type, 0 where it has none */
  int64_t low, high;   /* integer: its range */
  uint64_t needed;     /* bytes that compiled code takes for bound, whatever binds it; 0: it tests each access */
  uint32_t is_optional; /* the needed bytes are tested only where something is bound */
  uint32_t is_writable; /* declared in device memory and not const */
} mc_rule;
MC_AT(mc_rule, needed, 32);
_Static_assert(sizeof(mc_rule) == 48, "mc_rule");

/* What launches of one kernel with one grid have in common. layout.py mirrors it. */
typedef struct mc_plan {
  mc_launch launch; /* all but buffers, sizes, stop, regions, error, is_cached and read_only */
  mc_run_fn main_fn;
  mc_run_fn edge_fn;
  uint64_t* cost; /* nanoseconds per 1,024 threads, as measured last; 0: not known */
  const mc_rule* rules; /* of n_slots arguments */
  uint32_t n_slots;
  uint32_t written;  /* bit i: the kernel writes [[buffer(i)]] */
  uint32_t is_brief; /* it ends by itself before anyone would press Ctrl-C twice */
  uint64_t wide_from; /* bytes of a buffer from which an index that wrapped could lie inside; 0: any size will do */
} mc_plan;
MC_AT(mc_plan, main_fn, 960);
MC_AT(mc_plan, edge_fn, 968);
MC_AT(mc_plan, cost, 976);
MC_AT(mc_plan, rules, 984);
MC_AT(mc_plan, n_slots, 992);
MC_AT(mc_plan, written, 996);
MC_AT(mc_plan, is_brief, 1000);
MC_AT(mc_plan, wide_from, 1008);
_Static_assert(sizeof(mc_plan) == 1016, "mc_plan");

enum {
  MC_OK = 0,
  MC_STOPPED = 1,
  MC_FAULT = 2,
  MC_NO_MEMORY = 4,
  MC_NOT_SIMPLE = 8,
  MC_TOO_WIDE = 16,
  MC_TOO_SMALL = 32,
  MC_RAISED = 64,
  MC_TIMED_OUT = 128,
  MC_APART = 256,
};
#define MC_LEFT (MC_STOPPED | MC_RAISED | MC_TIMED_OUT) /* not all threadgroups have run */

/* Memory between two guard pages. */
typedef struct mc_mapping {
  char* start;
  uint64_t size;
} mc_mapping;

/* An mc_worker with the memory that belongs to it. */
typedef struct mc_context {
  mc_worker worker; /* first: kernels hand back an mc_worker* */
  mc_mapping group;
  mc_mapping stack; /* mc_run works on it: no kernel touches the stack of a thread that is not ours */
  mc_mapping blocks[MC_MAX_BLOCKS]; /* coroutine frames; each block larger than the one before */
  uint32_t n_blocks;
  struct mc_context* next;     /* free ones */
  struct mc_context* all_next; /* all there are, for stop.c, whose own the rest is */
  mc_stop stop;                /* of the launch that this context's thread began */
  uint32_t running;
  uint32_t is_main;    /* begun by Python's main thread */
  uint32_t waits;      /* its caller is not in the kernel and looks after signals itself */
  uint64_t serial;     /* launches so far */
  uint64_t seen;       /* the last one that the watch has seen */
  uint64_t deadline;   /* 0: none */
  uint64_t look_after; /* no sooner */
  uint64_t floats;     /* the floating-point environment that Python runs with */
} mc_context;

/* memory.c */
mc_context* mc_context_acquire(void);
void mc_context_release(mc_context*);
int mc_context_prepare(mc_context*, mc_launch*); /* 0 where memory is short */
char* mc_grow_frames(mc_worker*, uint64_t bytes);
mc_context* mc_all_contexts(void);
void mc_memory_after_fork(void);

static inline void mc_reset_frames(mc_context* context) {
  context->worker.frame_cur = context->blocks[0].start;
  context->worker.frame_end = context->blocks[0].start + context->blocks[0].size;
}

/* stack.c */
void mc_run_on_stack(const mc_mapping* stack, mc_run_fn, mc_launch*, mc_worker*, const uint32_t place[7]);

/* access.c */
void mc_slow_access(mc_launch*, const mc_access*);

/* report.c */
void mc_report(mc_launch*, const mc_worker*, uint32_t place, uint32_t lanes, uint32_t first_thread);
void mc_tell(mc_launch*, const mc_worker*, uint32_t place, uint32_t lanes, uint32_t first_thread, const uint64_t* values);

/* launch.c: what sanitize mode, which is a library of its own, needs of this one */
typedef struct mc_services {
  void (*bind)(const mc_plan*, const uint64_t* packed, mc_launch*);
  int (*start)(const mc_plan*, mc_launch*, uint32_t threads, mc_region* regions, uint64_t n_regions, uint64_t limit);
} mc_services;

/* stop.c */
int mc_stop_enter(mc_context*, mc_launch*, int is_brief, uint64_t limit);
int mc_stop_leave(mc_context*);
void mc_stop_wait(mc_launch*, uint32_t* word, uint32_t value);
void mc_stop_after_fork(void);

static inline int mc_must_leave(mc_launch* launch) { return launch->stop->word && launch->stop->attend(launch->stop); }

/* python.c: non-zero where a handler of a signal raised. In: the time now; out: how long Python's lock was waited for. */
int mc_python_raises(uint64_t* time);

/* launch.c */
void mc_begin(const mc_plan*, mc_launch*);
void mc_bind(const mc_plan*, const uint64_t* packed, mc_launch*);
int mc_start(const mc_plan*, mc_launch*, uint32_t threads, mc_region* regions, uint64_t n_regions, uint64_t limit);

/* pool.c */
#define MC_PARTS 32
#define MC_SPINS 20000 /* some 400 microseconds: being woken takes 50 */

typedef struct mc_part { /* neighbouring threadgroups that one thread begins with */
  _Alignas(64) uint64_t next;
  uint64_t end;
} mc_part;

typedef struct mc_job {
  mc_launch* launch;
  mc_run_fn main_fn;
  mc_run_fn edge_fn; /* groups that the grid clips in x */
  uint64_t total;    /* threadgroups */
  uint64_t chunk;    /* threadgroups taken at a time */
  uint32_t full_x;   /* threadgroups of a row that the grid does not clip */
  uint32_t failed;   /* a worker found no memory */
  uint32_t n_parts;  /* of MC_PARTS at most */
  mc_part* parts;
} mc_job;

void mc_job_divide(mc_job*, uint32_t threads);
int mc_job_has_work(const mc_job*);
int mc_job_take(mc_job*, uint32_t* part, uint64_t* first, uint64_t* last);
void mc_job_run(mc_job*, mc_context*, uint64_t first, uint64_t last);
void mc_job_help(mc_job*, mc_context*, uint32_t part);
int mc_start_thread(void* (*)(void*), size_t stack); /* 0: there can be no more */
int mc_pool_try_lock(void);
void mc_pool_unlock(void);
void mc_pool_open(mc_job*, uint32_t helpers);
void mc_pool_close(mc_job*);
void mc_pool_after_fork(void);
int mc_openmp_run(mc_job*, mc_context*, uint32_t threads); /* 0: there is no OpenMP to run it on */
void mc_openmp_after_fork(void);

#endif

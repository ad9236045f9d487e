/* The entry points that Python calls. */
#include "sanitize.h"

#define MC_INLINE 0x8000000000000000u /* a size with this bit: the address is an offset into the packed arguments */
#define MC_FIXED 0x4000000000000000u  /* a size with this bit: the memory may not be written */
#define MC_SMALL_THREADS 2048         /* fewer threads of unknown cost start on the caller alone */
#define MC_WAKE_AFTER 15000           /* nanoseconds of work that are worth waking the pool for */

static _Thread_local mc_error last_error;

/* The caller works from the start; others join at once where the job is known to be long, else when it proves so. */
static int run_shared(mc_job* job, mc_context* context, uint32_t threads, int open_now) {
  uint64_t begin = mc_now(), first, last;
  uint32_t part = 0;
  int is_open = 0;
  mc_part parts[MC_PARTS];
  job->parts = parts;
  mc_job_divide(job, threads);
  while (!mc_must_leave(job->launch)) {
    if (!is_open && (open_now || mc_now() - begin > MC_WAKE_AFTER) && mc_job_has_work(job)) {
      if (mc_openmp_run(job, context, threads)) return 1;
      if (mc_pool_try_lock()) {
        mc_pool_open(job, threads - 1);
        is_open = 1;
      }
    }
    if (!mc_job_take(job, &part, &first, &last)) break;
    mc_job_run(job, context, first, last);
  }
  if (is_open) {
    mc_pool_close(job);
    mc_pool_unlock();
  }
  return is_open;
}

static void run_in_order_of_seed(mc_job* job, mc_context* context, const mc_sanitizer* s) {
  for (uint64_t i = 0; i < job->total && !mc_must_leave(job->launch); i++) {
    uint64_t group = s->nth_group(s, i);
    mc_job_run(job, context, group, group + 1);
  }
}

static int run(const mc_plan* plan, mc_launch* launch, uint32_t threads, uint64_t limit) {
  mc_job job = {.launch = launch, .main_fn = plan->main_fn, .edge_fn = plan->edge_fn};
  uint64_t* cost = plan->cost;
  job.total = (uint64_t)launch->groups[0] * launch->groups[1] * launch->groups[2];
  job.full_x = launch->grid[0] / launch->group[0];
  if (job.total == 0) return MC_OK;
  launch->slow_access = mc_slow_access;
  launch->grow_frames = mc_grow_frames;
  launch->report = mc_report;
  launch->tell = mc_tell;
  mc_context* context = mc_context_acquire();
  if (!context) return MC_NO_MEMORY;
  if (!mc_context_prepare(context, launch) || !mc_stop_enter(context, launch, plan->is_brief, limit)) {
    mc_context_release(context);
    return MC_NO_MEMORY;
  }
  uint64_t floats = context->floats = mc_set_float_environment(MC_FLOAT_DEFAULT);
  if (launch->sanitizer && launch->sanitizer->options->is_shuffled) {
    run_in_order_of_seed(&job, context, launch->sanitizer);
  } else if (threads <= 1 || job.total == 1) {
    mc_job_run(&job, context, 0, job.total);
  } else {
    double grid = (double)launch->grid[0] * launch->grid[1] * launch->grid[2];
    uint64_t known = cost ? __atomic_load_n(cost, __ATOMIC_RELAXED) : 0;
    int open_now = known ? grid * (double)known / 1024 > 2 * MC_WAKE_AFTER : grid >= MC_SMALL_THREADS;
    if (threads > job.total) threads = (uint32_t)job.total;
    job.chunk = job.total / ((uint64_t)threads * 16);
    if (job.chunk == 0) job.chunk = 1;
    uint64_t begin = mc_now();
    int shared = run_shared(&job, context, threads, open_now);
    if (cost && !launch->stop->word) { /* serial time: what the threads took together */
      double spent = (double)(mc_now() - begin) * (shared ? threads : 1) * 1024 / grid;
      __atomic_store_n(cost, (uint64_t)spent + 1, __ATOMIC_RELAXED);
    }
  }
  mc_set_float_environment(floats);
  int result = mc_stop_leave(context);
  mc_context_release(context);
  if (launch->left_out) result |= launch->left_out == MC_NO_FRAMES ? MC_NO_MEMORY : MC_APART;
  if (launch->error.claimed) result |= MC_FAULT;
  return result; /* a helper without memory only means that others did its share */
}

/* A launch without buffers, as the plan wants it. */
void mc_begin(const mc_plan* plan, mc_launch* launch) {
  size_t bound = offsetof(mc_launch, grid), end = offsetof(mc_launch, error);
  memset(launch, 0, bound);
  memcpy((char*)launch + bound, (const char*)&plan->launch + bound, end - bound);
  memset(&launch->error, 0, sizeof launch->error);
  launch->findings = plan->launch.findings;
  launch->said = plan->launch.said;
  launch->sanitizer = 0;
  launch->stack_size = plan->launch.stack_size;
  launch->left_out = 0;
  launch->read_only = 0;
}

/* Adds the bound buffers to sorted regions; room for MC_BUFFERS more is there. */
static uint64_t add_regions(mc_region* regions, uint64_t n, const mc_launch* launch, const mc_plan* plan) {
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    char* lo = launch->buffers[i];
    if (!lo) continue;
    uint64_t at = n++;
    for (; at > 0 && (uintptr_t)regions[at - 1].lo > (uintptr_t)lo; at--) regions[at] = regions[at - 1];
    int is_writable = plan->rules[i].is_writable && !(launch->read_only >> i & 1);
    regions[at] = (mc_region){lo, lo + launch->sizes[i], is_writable};
  }
  return n;
}

/* Bytes of written buffers from which their rows are not kept in the cache: native_library.py knows its size. */
MC_EXPORT uint64_t mc_stream_from = 16 << 20;

static int is_cached(const mc_plan* plan, const mc_launch* launch) {
  uint64_t bytes = 0;
  for (uint32_t bits = plan->written; bits; bits &= bits - 1) bytes += launch->sizes[__builtin_ctz(bits)];
  return bytes < mc_stream_from;
}

/* Is some memory so large that a 32-bit index which wrapped around could lie inside of it? */
static int is_too_wide(const mc_plan* plan, const mc_launch* launch, const mc_region* regions, uint64_t n_regions) {
  if (!plan->wide_from) return 0;
  for (uint32_t i = 0; i < plan->n_slots; i++)
    if (launch->sizes[i] >= plan->wide_from) return 1;
  for (uint64_t i = 0; i < n_regions; i++)
    if ((uint64_t)(regions[i].hi - regions[i].lo) >= plan->wide_from) return 1;
  return 0;
}

/* The first argument that is smaller than compiled code takes it for, or MC_BUFFERS. Every launch comes by here. */
static uint32_t find_too_small(const mc_plan* plan, const mc_launch* launch) {
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    const mc_rule* rule = &plan->rules[i];
    if (launch->sizes[i] < rule->needed && !(rule->is_optional && !launch->buffers[i])) return i;
  }
  return MC_BUFFERS;
}

/* Runs a launch whose buffers are bound. regions, limit: as for mc_call. MC_TOO_WIDE, MC_TOO_SMALL: nothing has happened. */
int mc_start(const mc_plan* plan, mc_launch* launch, uint32_t threads, mc_region* regions, uint64_t n_regions,
             uint64_t limit) {
  mc_region own[MC_BUFFERS];
  uint32_t small = find_too_small(plan, launch);
  if (small < MC_BUFFERS) {
    last_error = (mc_error){.site = small, .count = launch->sizes[small]};
    return MC_TOO_SMALL;
  }
  if (is_too_wide(plan, launch, regions, n_regions)) return MC_TOO_WIDE;
  launch->regions = regions ? regions : own;
  launch->n_regions = add_regions(regions ? regions : own, n_regions, launch, plan);
  launch->is_cached = is_cached(plan, launch);
  int result = run(plan, launch, threads, limit);
  if (result & MC_FAULT) last_error = launch->error;
  return result;
}

/* packed: n_slots pairs (address, size) in slot order, then the bytes of arguments passed by value. */
void mc_bind(const mc_plan* plan, const uint64_t* packed, mc_launch* launch) {
  mc_begin(plan, launch);
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    uint64_t address = packed[2 * i], size = packed[2 * i + 1];
    if (size & MC_INLINE) {
      address += (uint64_t)(uintptr_t)packed;
      size |= MC_FIXED;
    }
    if (size & MC_FIXED) launch->read_only |= 1u << i;
    size &= ~(MC_INLINE | MC_FIXED);
    launch->buffers[i] = (void*)(uintptr_t)address;
    launch->sizes[i] = size;
  }
}

/* regions: n_regions sorted allocations that hold what lists of arrays point to, and room for MC_BUFFERS more. limit:
 * nanoseconds after which the launch is stopped, 0 for none. */
MC_EXPORT int mc_call(const mc_plan* plan, const uint64_t* packed, uint32_t threads, mc_region* regions,
                      uint64_t n_regions, uint64_t limit) {
  mc_launch launch;
  mc_bind(plan, packed, &launch);
  return mc_start(plan, &launch, threads, regions, n_regions, limit);
}

MC_EXPORT const mc_services mc_for_sanitizer = {mc_bind, mc_start};

/* The error of the last launch of this thread that returned MC_FAULT; for MC_TOO_SMALL site is the slot and count the bytes
 * that are bound to it. */
MC_EXPORT void mc_last_error(mc_error* error) { *error = last_error; }

MC_EXPORT void mc_after_fork(void) {
  mc_pool_after_fork();
  mc_openmp_after_fork();
  mc_memory_after_fork();
  mc_stop_after_fork();
}

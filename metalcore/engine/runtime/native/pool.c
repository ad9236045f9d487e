/* A pool of threads that serves one launch at a time. Idle threads sleep on a futex after a short spin.
 *
 * `offer` holds a round number (high half) and how many helpers may still join (low half), so that joining is one
 * compare-and-swap, and a thread that wakes late can only join the job on offer now. */
#include "runtime.h"

#define MC_STACK (16u << 20)

static struct {
  _Alignas(64) uint64_t offer;
  _Alignas(64) uint32_t round; /* futex word of sleeping workers */
  uint32_t sleepers;
  _Alignas(64) uint32_t done; /* futex word of the caller: helpers that left the job */
  uint32_t caller_waits;
  _Alignas(64) uint32_t locked;
  uint32_t n_workers;
  mc_job* job;
  uint32_t wanted;
} pool;

void mc_job_run(mc_job* job, mc_context* context, uint64_t first, uint64_t last) {
  mc_launch* launch = job->launch;
  const uint32_t *groups = launch->groups, *group = launch->group, *grid = launch->grid;
  while (first < last && !mc_must_leave(launch)) {
    uint64_t row = first / groups[0];
    uint32_t gx = (uint32_t)(first % groups[0]), gy = (uint32_t)(row % groups[1]), gz = (uint32_t)(row / groups[1]);
    uint32_t left_y = grid[1] - gy * group[1], left_z = grid[2] - gz * group[2];
    uint32_t h = left_y < group[1] ? left_y : group[1], d = left_z < group[2] ? left_z : group[2];
    uint64_t run = last - first < groups[0] - gx ? last - first : groups[0] - gx;
    mc_reset_frames(context);
    if (gx < job->full_x) {
      if (run > job->full_x - gx) run = job->full_x - gx;
      const uint32_t place[] = {gx, gx + (uint32_t)run, gy, gz, group[0], h, d};
      mc_run_on_stack(&context->stack, job->main_fn, launch, &context->worker, place);
    } else { /* only the last group of a row is clipped */
      const uint32_t place[] = {gx, gx + 1, gy, gz, grid[0] - gx * group[0], h, d};
      mc_run_on_stack(&context->stack, job->edge_fn, launch, &context->worker, place);
      run = 1;
    }
    first += run;
  }
  if (!launch->is_cached) mc_settle_stores();
}

/* Each thread has a part of its own, so that it finds in its cache what it worked on in the launch before. */
void mc_job_divide(mc_job* job, uint32_t threads) {
  job->n_parts = threads < MC_PARTS ? threads : MC_PARTS;
  uint64_t at = 0;
  for (uint32_t i = 0; i < job->n_parts; i++) {
    job->parts[i].next = at;
    at += job->total / job->n_parts + (i < job->total % job->n_parts);
    job->parts[i].end = at;
  }
}

int mc_job_has_work(const mc_job* job) {
  for (uint32_t i = 0; i < job->n_parts; i++)
    if (MC_LOAD_ACQ(&job->parts[i].next) < job->parts[i].end) return 1;
  return 0;
}

/* The next threadgroups of this part, or of another where it is done; `part` moves on. 0: nothing is left. */
int mc_job_take(mc_job* job, uint32_t* part, uint64_t* first, uint64_t* last) {
  for (uint32_t tried = 0; tried < job->n_parts; tried++) {
    mc_part* from = &job->parts[*part % job->n_parts];
    if (MC_LOAD_ACQ(&from->next) < from->end) {
      *first = MC_ADD(&from->next, job->chunk);
      *last = *first + job->chunk < from->end ? *first + job->chunk : from->end;
      if (*first < from->end) return 1;
    }
    *part += 1;
  }
  return 0;
}

void mc_job_help(mc_job* job, mc_context* context, uint32_t part) {
  if (!context || !mc_context_prepare(context, job->launch)) {
    MC_STORE_SEQ(&job->failed, 1);
    return;
  }
  uint64_t first, last;
  while (!mc_must_leave(job->launch) && mc_job_take(job, &part, &first, &last)) mc_job_run(job, context, first, last);
}

/* Which of the helpers the caller is, counted down to 1; 0: no more are wanted. */
static uint32_t join(void) {
  uint64_t offer = MC_LOAD_ACQ(&pool.offer);
  while ((uint32_t)offer)
    if (__atomic_compare_exchange_n(&pool.offer, &offer, offer - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
      return (uint32_t)offer;
  return 0;
}

static int idle_spins = MC_SPINS;

static void* worker_main(void* unused) {
  (void)unused;
  mc_context* context = mc_context_acquire();
  mc_set_float_environment(MC_FLOAT_DEFAULT); /* a thread starts with that of its creator */
  for (;;) {
    uint32_t round = MC_LOAD_SEQ(&pool.round); /* before join: an offer made after this moves it */
    uint32_t helper = join();
    if (helper) {
      mc_job_help(pool.job, context, helper);
      MC_ADD(&pool.done, 1);
      if (MC_LOAD_SEQ(&pool.caller_waits)) mc_futex_wake(&pool.done, 1);
      continue;
    }
    int spins = idle_spins;
    while (spins-- && MC_LOAD_SEQ(&pool.round) == round) mc_pause();
    if (spins >= 0) continue;
    MC_ADD(&pool.sleepers, 1);
    mc_futex_wait(&pool.round, round); /* returns at once where a job came in between */
    MC_ADD(&pool.sleepers, (uint32_t)-1);
  }
  return 0;
}

/* Signals are for Python's threads: ours take none. */
int mc_start_thread(void* (*main)(void*), size_t stack) {
  mc_sigset all, before;
  memset(&all, 0xff, sizeof all);
  pthread_sigmask(MC_SIG_SETMASK, &all, &before);
  mc_pthread_attr attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, stack);
  pthread_attr_setdetachstate(&attr, MC_DETACHED);
  mc_pthread thread;
  int failed = pthread_create(&thread, &attr, main, 0);
  pthread_attr_destroy(&attr);
  pthread_sigmask(MC_SIG_SETMASK, &before, 0);
  return !failed;
}

static void start_workers(uint32_t wanted) {
  if (wanted > MC_MAX_WORKERS) wanted = MC_MAX_WORKERS;
  while (pool.n_workers < wanted && mc_start_thread(worker_main, MC_STACK)) pool.n_workers++; /* fewer serve as well */
}

/* For a process that will not be allowed to start threads any more. Another one waits for its answers and wants the
 * processor then: idle threads do not spin. */
MC_EXPORT void mc_start_pool(uint32_t helpers) {
  idle_spins = 0;
  start_workers(helpers);
}

int mc_pool_try_lock(void) {
  return !MC_LOAD_ACQ(&pool.locked) && !__atomic_exchange_n(&pool.locked, 1, __ATOMIC_ACQUIRE);
}

void mc_pool_unlock(void) { MC_STORE_REL(&pool.locked, 0); }

/* Lets helpers join the job; the caller holds the lock. */
void mc_pool_open(mc_job* job, uint32_t helpers) {
  start_workers(helpers);
  if (helpers > pool.n_workers) helpers = pool.n_workers;
  pool.job = job;
  pool.wanted = helpers;
  pool.caller_waits = 0;
  MC_STORE_SEQ(&pool.done, 0);
  uint64_t round = MC_LOAD_SEQ(&pool.round) + 1u;
  MC_STORE_SEQ(&pool.offer, round << 32 | helpers);
  MC_STORE_SEQ(&pool.round, (uint32_t)round);
  if (MC_LOAD_SEQ(&pool.sleepers)) mc_futex_wake(&pool.round, helpers);
}

/* No further helper joins; returns when all that did have left. */
void mc_pool_close(mc_job* job) {
  uint64_t offer = __atomic_exchange_n(&pool.offer, 0, __ATOMIC_SEQ_CST);
  uint32_t joined = pool.wanted - (uint32_t)offer;
  for (int spins = MC_SPINS; spins && MC_LOAD_SEQ(&pool.done) != joined; spins--) mc_pause();
  if (MC_LOAD_SEQ(&pool.done) == joined) return;
  MC_STORE_SEQ(&pool.caller_waits, 1);
  for (;;) {
    uint32_t done = MC_LOAD_SEQ(&pool.done);
    if (done == joined) return;
    mc_stop_wait(job->launch, &pool.done, done);
  }
}

/* In a child process the threads are gone. */
void mc_pool_after_fork(void) { memset(&pool, 0, sizeof pool); }

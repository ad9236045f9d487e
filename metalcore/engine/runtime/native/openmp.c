/* Launches on the threads of OpenMP, where another library of the process (torch) has started them: after a parallel
 * op they spin for milliseconds on the very cores that our workers would want. Python finds its functions. */
#include "runtime.h"

typedef void (*mc_parallel)(void (*)(void*), void*, unsigned, unsigned); /* GOMP_parallel */
typedef int (*mc_count)(void); /* omp_get_max_threads, omp_get_thread_num */

static mc_parallel parallel;
static mc_count max_threads, thread_number;

typedef struct mc_team {
  mc_job* job;
  mc_context* context; /* the caller's, who is number 0 */
  uint32_t size;
  uint32_t inside; /* threads besides the caller that have not left */
  uint32_t caller_waits;
} mc_team;

MC_EXPORT void mc_use_openmp(void* parallel_fn, void* max_threads_fn, void* thread_number_fn) {
  max_threads = (mc_count)max_threads_fn;
  thread_number = (mc_count)thread_number_fn;
  parallel = (mc_parallel)parallel_fn;
}

static void work(void* data) {
  mc_team* team = data;
  uint32_t number = (uint32_t)thread_number();
  if (number >= team->size) return;
  if (!number) {
    mc_job_help(team->job, team->context, 0);
    /* OpenMP would wait at its end without looking at signals. Who comes late finds no work. */
    for (int spins = MC_SPINS; spins && MC_LOAD_SEQ(&team->inside); spins--) mc_pause();
    MC_STORE_SEQ(&team->caller_waits, 1);
    for (uint32_t left; (left = MC_LOAD_SEQ(&team->inside)) != 0;) mc_stop_wait(team->job->launch, &team->inside, left);
    return;
  }
  MC_ADD(&team->inside, 1);
  mc_context* context = mc_context_acquire();
  uint64_t floats = mc_set_float_environment(MC_FLOAT_DEFAULT);
  mc_job_help(team->job, context, number);
  mc_set_float_environment(floats);
  if (context) mc_context_release(context);
  MC_ADD(&team->inside, (uint32_t)-1);
  if (MC_LOAD_SEQ(&team->caller_waits)) mc_futex_wake(&team->inside, 1);
}

/* The team is as large as that library's own: OpenMP ends the threads that a smaller team leaves over. */
int mc_openmp_run(mc_job* job, mc_context* context, uint32_t threads) {
  if (!parallel || (uint32_t)max_threads() < threads) return 0;
  mc_team team = {.job = job, .context = context, .size = threads};
  parallel(work, &team, 0, 0);
  return 1;
}

/* In a child process OpenMP's threads are gone, and waiting for them would never end. */
void mc_openmp_after_fork(void) { parallel = 0; }

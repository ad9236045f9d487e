/* Launches on the threads of OpenMP, where another library of the process (torch) has started them: after a parallel
 * op they spin for milliseconds on the very cores that our workers would want. Python finds its functions. */
#include "runtime.h"

typedef void (*mc_parallel)(void (*)(void*), void*, unsigned, unsigned); /* GOMP_parallel */
typedef int (*mc_max_threads)(void);                                    /* omp_get_max_threads */

static mc_parallel parallel;
static mc_max_threads max_threads;

typedef struct mc_team {
  mc_job* job;
  mc_context* first; /* the caller's, for whoever comes first */
  int32_t seats;     /* how many may work */
} mc_team;

MC_EXPORT void mc_use_openmp(void* parallel_fn, void* max_threads_fn) {
  max_threads = (mc_max_threads)max_threads_fn;
  parallel = (mc_parallel)parallel_fn;
}

static void work(void* data) {
  mc_team* team = data;
  mc_job* job = team->job;
  if (MC_LOAD_SEQ(&job->next) >= job->total || MC_ADD(&team->seats, -1) <= 0) return;
  mc_context* given = __atomic_exchange_n(&team->first, 0, __ATOMIC_SEQ_CST);
  mc_context* context = given ? given : mc_context_acquire();
  uint64_t floats = mc_set_float_environment(MC_FLOAT_DEFAULT);
  mc_job_help(job, context);
  mc_set_float_environment(floats);
  if (context && !given) mc_context_release(context);
}

/* The team is as large as that library's own: OpenMP ends the threads that a smaller team leaves over. */
int mc_openmp_run(mc_job* job, mc_context* context, uint32_t threads) {
  if (!parallel || (uint32_t)max_threads() < threads) return 0;
  mc_team team = {job, context, (int32_t)threads};
  parallel(work, &team, 0, 0);
  return 1;
}

/* In a child process OpenMP's threads are gone, and waiting for them would never end. */
void mc_openmp_after_fork(void) { parallel = 0; }

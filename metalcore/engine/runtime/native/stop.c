/* How a launch is stopped: kernels read a word now and then, and where it is not 0 they ask here whether to leave.
 *
 * One thread, the watch, sets it: when the time of a launch is over, and every 20 ms for a launch of Python's main
 * thread, which then runs the handlers of signals that have come (Ctrl-C, SIGALRM, ...). A handler that raises ends the
 * launch; one that returns lets it go on. Launches of other threads hear of no signal, as all else in Python. */
#include "runtime.h"

#define MC_TICK 20000000u   /* nanoseconds between two looks */
#define MC_IDLE_TICKS 50    /* without a launch, then the watch sleeps until it is woken */
#define MC_WATCH_STACK (256u << 10)

enum { MC_LOOK = 1, MC_RAISED_WORD = 2, MC_TIMED_OUT_WORD = 4, MC_FORKED_WORD = 8 };
#define MC_LEAVE (MC_RAISED_WORD | MC_TIMED_OUT_WORD | MC_FORKED_WORD)
enum { MC_IDLE = 0, MC_RUNNING = 1, MC_LOOKED_AT = 2 };

static mc_pthread main_thread;
static struct {
  _Alignas(64) uint32_t kick; /* futex word */
  uint32_t is_awake;
  uint32_t is_started;
} watch;

static mc_stop never_stops;

MC_EXPORT void mc_set_main_thread(uint64_t identity) { main_thread = (mc_pthread)identity; }

static mc_context* context_of(mc_stop* stop) { return (mc_context*)((char*)stop - offsetof(mc_context, stop)); }

/* Runs the handlers of signals that have come; the caller is the main thread. */
static void look(mc_context* context) {
  __atomic_fetch_and(&context->stop.word, ~(uint32_t)MC_LOOK, __ATOMIC_SEQ_CST);
  uint64_t floats = mc_set_float_environment(context->floats), begin = mc_now();
  if (mc_python_raises(&begin)) __atomic_fetch_or(&context->stop.word, MC_RAISED_WORD, __ATOMIC_SEQ_CST);
  mc_set_float_environment(floats);
  /* `begin` is what waiting for Python's lock took: where another thread computes in Python, look less often. */
  MC_STORE_REL(&context->look_after, mc_now() + 20 * begin);
}

/* Non-zero: the kernel is to leave. Called by any thread that runs a part of the launch. */
static int attend(mc_stop* stop) {
  mc_context* context = context_of(stop);
  uint32_t word = __atomic_load_n(&context->stop.word, __ATOMIC_SEQ_CST);
  if (!(word & MC_LEAVE) && word & MC_LOOK && pthread_self() == main_thread) {
    look(context);
    word = __atomic_load_n(&context->stop.word, __ATOMIC_SEQ_CST);
  }
  return (word & MC_LEAVE) != 0;
}

/* Looks at one launch; non-zero where there has been one since the last time. */
static int look_at(mc_context* context, uint64_t now, uint64_t* next) {
  uint32_t running = MC_RUNNING;
  if (!__atomic_compare_exchange_n(&context->running, &running, MC_LOOKED_AT, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    uint64_t serial = __atomic_load_n(&context->serial, __ATOMIC_RELAXED);
    int is_new = serial != context->seen;
    context->seen = serial;
    return is_new;
  }
  if (context->deadline && now >= context->deadline)
    __atomic_fetch_or(&context->stop.word, MC_TIMED_OUT_WORD, __ATOMIC_SEQ_CST);
  else if (context->deadline && context->deadline < *next)
    *next = context->deadline;
  int is_due = context->serial == context->seen && now >= MC_LOAD_ACQ(&context->look_after);
  if (is_due && context->is_main && !MC_LOAD_ACQ(&context->waits))
    __atomic_fetch_or(&context->stop.word, MC_LOOK, __ATOMIC_SEQ_CST);
  context->seen = context->serial;
  MC_STORE_SEQ(&context->running, MC_RUNNING);
  return 1;
}

static void* watch_main(void* unused) {
  (void)unused;
  mc_name_thread("metalcore-watch");
  for (uint32_t idle = 0;;) {
    uint32_t kick = MC_LOAD_SEQ(&watch.kick);
    uint64_t now = mc_now(), next = now + MC_TICK;
    int active = 0;
    for (mc_context* each = mc_all_contexts(); each; each = each->all_next) active |= look_at(each, now, &next);
    idle = active ? 0 : idle + 1;
    if (idle == MC_IDLE_TICKS) MC_STORE_SEQ(&watch.is_awake, 0); /* then one more round, for who did not see it */
    else if (idle > MC_IDLE_TICKS) mc_futex_wait(&watch.kick, kick), idle = 0;
    if (active) MC_STORE_SEQ(&watch.is_awake, 1);
    now = mc_now();
    if (idle != MC_IDLE_TICKS && next > now) mc_futex_wait_for(&watch.kick, kick, next - now);
  }
  return 0;
}

/* 0: there is no watch, and none could be started. */
static int wake_watch(void) {
  MC_STORE_SEQ(&watch.is_awake, 1);
  if (!__atomic_exchange_n(&watch.is_started, 1, __ATOMIC_SEQ_CST)) {
    if (mc_start_thread(watch_main, MC_WATCH_STACK)) return 1;
    MC_STORE_SEQ(&watch.is_started, 0);
    MC_STORE_SEQ(&watch.is_awake, 0);
    return 0;
  }
  MC_ADD(&watch.kick, 1);
  mc_futex_wake(&watch.kick, 1);
  return 1;
}

/* limit: nanoseconds that the launch may take, 0 for any. 0 where it cannot be watched. A brief launch is never stopped,
 * and needs not be: Python runs handlers right after it. */
int mc_stop_enter(mc_context* context, mc_launch* launch, int is_brief, uint64_t limit) {
  launch->stop = &never_stops;
  context->running = MC_IDLE;
  if (is_brief && !limit) return 1;
  launch->stop = &context->stop;
  context->stop.word = 0;
  context->stop.attend = attend;
  context->is_main = pthread_self() == main_thread;
  if (!context->is_main && !limit) return 1; /* nobody stops it */
  context->deadline = 0;
  if (limit) {
    uint64_t now = mc_now();
    context->deadline = limit < ~now ? now + limit : ~(uint64_t)0;
  }
  __atomic_store_n(&context->serial, context->serial + 1, __ATOMIC_RELAXED);
  context->look_after = 0;
  context->waits = 0;
  MC_STORE_SEQ(&context->running, MC_RUNNING);
  if ((limit || !MC_LOAD_SEQ(&watch.is_awake)) && !wake_watch() && limit) {
    mc_stop_leave(context);
    return 0;
  }
  return 1;
}

/* Why the launch was left, or MC_OK. */
int mc_stop_leave(mc_context* context) {
  if (context->running == MC_IDLE) return MC_OK;
  uint32_t running = MC_RUNNING;
  while (!__atomic_compare_exchange_n(&context->running, &running, MC_IDLE, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    running = MC_RUNNING;
    mc_yield(); /* the watch is at it */
  }
  uint32_t word = context->stop.word;
  if (word & MC_RAISED_WORD) return MC_RAISED;
  if (word & MC_FORKED_WORD) return MC_STOPPED;
  return word & MC_TIMED_OUT_WORD ? MC_TIMED_OUT : MC_OK;
}

/* Until *word is no longer `value`, or a while has passed: the caller waits for others who run its launch. Handlers run
 * meanwhile. */
void mc_stop_wait(mc_launch* launch, uint32_t* word, uint32_t value) {
  if (launch->stop == &never_stops || pthread_self() != main_thread) {
    mc_futex_wait(word, value);
    return;
  }
  mc_context* context = context_of(launch->stop);
  MC_STORE_SEQ(&context->waits, 1);
  mc_futex_wait_for(word, value, MC_TICK);
  int has_left = (context->stop.word & MC_LEAVE) != 0;
  if (!has_left && mc_now() >= context->look_after) look(context);
  MC_STORE_SEQ(&context->waits, 0);
}

/* In a child process the watch is gone, and so is whoever helped with a launch: one that a signal handler of this thread
 * has interrupted to fork cannot go on. */
void mc_stop_after_fork(void) {
  int is_main = pthread_self() == main_thread;
  for (mc_context* each = mc_all_contexts(); each; each = each->all_next) {
    each->running = each->running != MC_IDLE && is_main && each->is_main ? MC_RUNNING : MC_IDLE;
    each->stop.word |= MC_FORKED_WORD;
  }
  main_thread = pthread_self();
  memset(&watch, 0, sizeof watch);
}

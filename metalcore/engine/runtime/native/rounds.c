/* Barrier intervals of a threadgroup, and whether all of its threads reach the same barriers. */
#include "sanitize.h"

enum { MC_FLAG_DEVICE = 1, MC_FLAG_THREADGROUP = 2, MC_SCOPE_DEVICE = 3 };

uint64_t mc_random(mc_sanitizer* s) { /* splitmix64 */
  uint64_t x = s->random += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* Whenever a threadgroup begins or a barrier is passed. */
static void set_limits(mc_sanitizer* s) {
  const int64_t start = (int64_t)s->group_start << MC_TIME_SHIFT;
  for (uint32_t space = 0; space < MC_SPACES; space++) {
    const int64_t since = (int64_t)s->since[space] << MC_TIME_SHIFT;
    const int64_t floor = space == MC_GROUP_SPACE ? start : (int64_t)s->launch_start << MC_TIME_SHIFT;
    s->limits[space] = (mc_limits){floor, start, since, space == MC_GROUP_SPACE ? since : floor};
  }
}

/* A record has 25 bits for the time. When they are used up, all history is forgotten: races over it are missed. */
static void tick(mc_sanitizer* s) {
  if (s->time < MC_LAST_TIME) {
    s->time++;
    return;
  }
  mc_wipe_shadows();
  s->has_forgotten = 1;
  s->time = s->launch_start = s->group_start = s->since_any = s->since_fence = 1;
  s->since[0] = s->since[1] = 1;
  memset(s->own_since, 0, sizeof s->own_since);
  memset(s->own_since_any, 0, sizeof s->own_since_any);
  s->lost_history = s->groups_begun ? s->groups_begun - 1 : 0;
  if (s->groups_begun) s->group_times[s->lost_history] = 1;
  for (uint32_t i = 0; i < s->n_shadows; i++) s->shadows[i].is_set_first = 0;
  set_limits(s);
}

static uint32_t all_lanes(const mc_sanitizer* s, uint32_t simdgroup) {
  uint32_t left = s->n_threads - simdgroup * MC_LANES;
  return left >= MC_LANES ? ~0u : (1u << left) - 1;
}

static void diverged(mc_sanitizer* s, uint32_t site, uint32_t thread, uint32_t other_site, uint32_t other_thread) {
  mc_event event = {.count = 1, .kind = MC_BARRIER_DIVERGENCE, .site = site, .other_site = other_site};
  event.root = MC_ANY_ROOT;
  event.thread = thread;
  event.other_thread = other_thread;
  for (int i = 0; i < 3; i++) event.group[i] = event.other_group[i] = s->worker->group_pos[i];
  mc_event_add(s, &event);
}

void mc_begin_group(mc_sanitizer* s, const mc_worker* worker, uint32_t threads) {
  if (s->n_pending) mc_settle(s);
  tick(s);
  s->worker = worker;
  s->group_times[s->groups_begun++] = s->time;
  s->group_start = s->since_any = s->since[0] = s->since[1] = s->time;
  set_limits(s);
  s->n_threads = threads;
  s->n_simdgroups = (threads + MC_LANES - 1) / MC_LANES;
  s->n_arrived = s->n_ended = 0;
  if (s->any_unset) memset(s->unset_reads, 0, sizeof s->unset_reads);
  s->any_unset = 0;
  mc_shadow* memory = s->roots[MC_GROUP_ROOT];
  if (memory) {
    /* What nobody wrote is the same in every run, and another with every seed. */
    int unset = s->options->is_shuffled ? (int)(mc_random(s) & 255) : 0xcd;
    memset(worker->group_memory, unset, s->launch->group_memory_size);
    memory->lo = (uintptr_t)worker->group_memory;
    memory->hi = memory->lo + s->launch->group_memory_size;
    mc_set_rows_end(memory);
  }
  for (uint32_t i = 0; i < s->n_simdgroups; i++) {
    uint32_t j = s->options->is_shuffled ? (uint32_t)(mc_random(s) % (i + 1)) : i;
    s->order[i] = s->order[j];
    s->order[j] = i;
  }
}

/* A threadgroup variable with an initialiser: written before the threads start, as if a barrier stood behind it. */
void mc_at_set_memory(mc_sanitizer* s, uintptr_t address, uint64_t size) {
  const mc_shadow* memory = s->roots[MC_GROUP_ROOT];
  if (!memory || !size) return;
  const uint64_t first = (address - memory->lo) >> memory->shift;
  uint64_t* record = memory->records + first;
  const uint64_t* last = memory->records + ((address + size - 1 - memory->lo) >> memory->shift);
  mc_open(s, memory, first, (uint64_t)(last - record) + 1);
  for (; record <= last; record++) *record = mc_record(s->group_start, 0, 0, MC_NO_SITE, 15, MC_WRITTEN);
  if (s->time != s->group_start) return;
  tick(s);
  s->since_any = s->since[0] = s->since[1] = s->time;
  set_limits(s);
}

static void finish_round(mc_sanitizer* s) {
  /* Some simdgroups have left the kernel, others wait for them. */
  if (s->n_ended && s->n_arrived) {
    diverged(s, s->round_site, s->round_simdgroup * MC_LANES, ~0u, s->last_ended * MC_LANES);
  }
  tick(s);
  if (s->round_flags & MC_FLAG_DEVICE) s->since[MC_DEVICE_SPACE] = s->time;
  if (s->round_flags & MC_FLAG_THREADGROUP) s->since[MC_GROUP_SPACE] = s->time;
  s->since_any = s->time;
  set_limits(s);
  s->n_arrived = 0;
}

void mc_at_barrier(mc_sanitizer* s, uint32_t site, uint32_t flags, uint32_t lanes, uint32_t simdgroup) {
  if (s->n_pending) mc_settle(s);
  uint32_t missing = all_lanes(s, simdgroup) & ~lanes, first = simdgroup * MC_LANES;
  if (missing)
    diverged(s, site, first + (uint32_t)__builtin_ctz(lanes), ~0u, first + (uint32_t)__builtin_ctz(missing));
  if (!s->n_arrived) {
    s->round_site = site;
    s->round_flags = flags;
    s->round_simdgroup = simdgroup;
  } else if (site != s->round_site) {
    diverged(s, site, first, s->round_site, s->round_simdgroup * MC_LANES);
  }
  s->round_flags &= flags;
  if (++s->n_arrived + s->n_ended >= s->n_simdgroups) finish_round(s);
}

void mc_end_simdgroup(mc_sanitizer* s, uint32_t simdgroup) {
  if (s->n_pending) mc_settle(s);
  s->last_ended = simdgroup;
  if (++s->n_ended + s->n_arrived >= s->n_simdgroups && s->n_arrived) finish_round(s);
}

void mc_at_simdgroup_barrier(mc_sanitizer* s, uint32_t site, uint32_t flags, uint32_t lanes, uint32_t simdgroup) {
  if (s->n_pending) mc_settle(s);
  uint32_t missing = all_lanes(s, simdgroup) & ~lanes, first = simdgroup * MC_LANES;
  if (missing)
    diverged(s, site, first + (uint32_t)__builtin_ctz(lanes), ~0u, first + (uint32_t)__builtin_ctz(missing));
  tick(s);
  if (flags & MC_FLAG_DEVICE) s->own_since[simdgroup][MC_DEVICE_SPACE] = s->time;
  if (flags & MC_FLAG_THREADGROUP) s->own_since[simdgroup][MC_GROUP_SPACE] = s->time;
  s->own_since_any[simdgroup] = s->time;
}

/* A fence of device scope hands over what was written to the threadgroups that come later. */
void mc_at_fence(mc_sanitizer* s, uint32_t flags, uint32_t scope) {
  if (!(flags & MC_FLAG_DEVICE) || scope < MC_SCOPE_DEVICE) return;
  tick(s);
  s->since_fence = s->time;
}

void mc_at_shuffle(mc_sanitizer* s, uint32_t site, const uint32_t* sources, uint32_t lanes, uint32_t first_thread) {
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(rest), source = sources[lane];
    if (source >= MC_LANES || lanes >> source & 1) continue;
    mc_event event = {.count = 1, .kind = MC_INACTIVE_LANE, .site = site, .other_site = ~0u, .root = MC_ANY_ROOT};
    event.thread = first_thread + lane;
    event.other_thread = first_thread + source;
    for (int i = 0; i < 3; i++) event.group[i] = event.other_group[i] = s->worker->group_pos[i];
    mc_event_add(s, &event);
  }
}

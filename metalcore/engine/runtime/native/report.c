/* What threads report: assertions that do not hold, findings of sanitize mode, lines of os_log. */
#include "runtime.h"

void mc_report(mc_launch* launch, const mc_worker* worker, uint32_t place, uint32_t lanes, uint32_t first_thread) {
  mc_finding* finding = &launch->findings[place];
  uint64_t before = __atomic_fetch_add(&finding->count, (uint64_t)__builtin_popcount(lanes), __ATOMIC_RELAXED);
  if (before || !lanes) return;
  for (int i = 0; i < 3; i++) finding->group[i] = worker->group_pos[i];
  finding->thread_index = first_thread + (uint32_t)__builtin_ctz(lanes);
}

void mc_tell(mc_launch* launch, const mc_worker* worker, uint32_t place, uint32_t lanes, uint32_t first_thread,
             const uint64_t* values) {
  mc_said* said = launch->said;
  if (!said || !lanes) return;
  uint64_t at = __atomic_fetch_add(&said->count, 1, __ATOMIC_RELAXED);
  if (at >= said->capacity) return;
  mc_saying* saying = &said->sayings[at];
  saying->place = place, saying->lanes = lanes, saying->first_thread = first_thread;
  for (int i = 0; i < 3; i++) saying->group[i] = worker->group_pos[i];
  memcpy(saying->values, values, sizeof saying->values);
}

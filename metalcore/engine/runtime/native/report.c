/* Findings of sanitize mode, which runs on one thread. */
#include "runtime.h"

void mc_report(mc_launch* launch, const mc_worker* worker, uint32_t place, uint32_t lanes, uint32_t first_thread) {
  mc_finding* finding = &launch->findings[place];
  if (finding->count == 0) {
    for (int i = 0; i < 3; i++) finding->group[i] = worker->group_pos[i];
    finding->thread_index = first_thread + (uint32_t)__builtin_ctz(lanes);
  }
  finding->count += (uint64_t)__builtin_popcount(lanes);
}

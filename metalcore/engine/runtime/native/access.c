/* The slow path of checked mode: an access of which some lane is out of bounds, or whose pointer is of unknown origin. */
#include "runtime.h"

/* The region that holds addr, or the nearest one below it; regions are sorted by lo. */
static const mc_region* find_region(const mc_launch* launch, const char* addr) {
  uint64_t lo = 0, hi = launch->n_regions;
  while (lo < hi) {
    uint64_t middle = (lo + hi) / 2;
    if ((uintptr_t)launch->regions[middle].lo <= (uintptr_t)addr) lo = middle + 1;
    else hi = middle;
  }
  /* Views overlap: an earlier region may reach further than the last one that starts below addr. */
  for (uint64_t i = lo; i-- > 0;)
    if ((uintptr_t)addr < (uintptr_t)launch->regions[i].hi) return &launch->regions[i];
  return lo ? &launch->regions[lo - 1] : 0;
}

static void record(mc_launch* launch, const mc_access* access, uint32_t lane, const char* lo, const char* hi) {
  if (launch->sanitizer) mc_out_of_bounds(launch->sanitizer, access, lane, lo, hi);
  mc_error* error = &launch->error;
  __atomic_fetch_add(&error->count, 1, __ATOMIC_RELAXED);
  uint32_t unclaimed = 0;
  if (MC_LOAD_ACQ(&error->claimed) ||
      !__atomic_compare_exchange_n(&error->claimed, &unclaimed, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return;
  error->site = access->site;
  error->kind = access->is_store;
  for (int i = 0; i < 3; i++) error->group[i] = access->group[i];
  error->thread_index = access->base_thread + lane;
  error->addr = access->addr[lane];
  error->lo = lo;
  error->hi = hi;
}

static int inside(const char* addr, uint32_t size, const char* lo, const char* hi) {
  uintptr_t a = (uintptr_t)addr, l = (uintptr_t)lo, h = (uintptr_t)hi;
  return a >= l && a <= h && h - a >= size;
}

void mc_slow_access(mc_launch* launch, const mc_access* access) {
  const uint32_t size = access->elem_size;
  for (uint32_t mask = access->mask; mask; mask &= mask - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(mask);
    const char* addr = access->addr[lane];
    const char *lo = access->lo[lane], *hi = access->hi[lane];
    if (!lo && !hi) {
      const mc_region* region = find_region(launch, addr);
      if (region) lo = region->lo, hi = region->hi;
    }
    char* data = access->data ? (char*)access->data + (size_t)lane * size : 0;
    if (inside(addr, size, lo, hi)) {
      if (access->is_store == MC_LOAD) memcpy(data, addr, size);
      else if (access->is_store == MC_STORE) memcpy((char*)addr, data, size);
    } else {
      if (access->is_store != MC_STORE && data) memset(data, 0, size);
      record(launch, access, lane, lo, hi);
    }
  }
}

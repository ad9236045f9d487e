/* The slow path of checked mode: an access of which some lane is out of bounds, or whose pointer is of unknown origin. */
#include "sanitize.h"

static int inside(const char* addr, uint32_t size, const char* lo, const char* hi) {
  uintptr_t a = (uintptr_t)addr, l = (uintptr_t)lo, h = (uintptr_t)hi;
  return a >= l && a <= h && h - a >= size;
}

/* A region that holds the access and, where it writes, may be written. Else one that holds it, then one that holds its
 * first byte, then the nearest one below it. Regions are sorted by lo; views of one array overlap. */
static const mc_region* find_region(const mc_launch* launch, const char* addr, uint32_t size, int writes) {
  uint64_t lo = 0, hi = launch->n_regions;
  while (lo < hi) {
    uint64_t middle = (lo + hi) / 2;
    if ((uintptr_t)launch->regions[middle].lo <= (uintptr_t)addr) lo = middle + 1;
    else hi = middle;
  }
  const mc_region *holds = 0, *begins = 0;
  for (uint64_t i = lo; i-- > 0;) {
    const mc_region* region = &launch->regions[i];
    if (inside(addr, size, region->lo, region->hi)) {
      if (!writes || region->is_writable) return region;
      if (!holds) holds = region;
    } else if (!begins && (uintptr_t)addr < (uintptr_t)region->hi) {
      begins = region;
    }
  }
  return holds ? holds : begins ? begins : lo ? &launch->regions[lo - 1] : 0;
}

static void record(mc_launch* launch, const mc_access* access, uint32_t lane, uint32_t refusal, const char* lo,
                   const char* hi) {
  if (launch->sanitizer) launch->sanitizer->out_of_bounds(launch->sanitizer, access, lane, refusal, lo, hi);
  mc_error* error = &launch->error;
  __atomic_fetch_add(&error->count, 1, __ATOMIC_RELAXED);
  uint32_t unclaimed = 0;
  if (MC_LOAD_ACQ(&error->claimed) ||
      !__atomic_compare_exchange_n(&error->claimed, &unclaimed, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return;
  error->site = access->site;
  error->kind = access->is_store | refusal;
  for (int i = 0; i < 3; i++) error->group[i] = access->group[i];
  error->thread_index = access->base_thread + lane;
  error->addr = access->addr[lane];
  error->lo = lo;
  error->hi = hi;
}

/* 0, or why a lane may not go on. */
static uint32_t refuses(const mc_region* region, const mc_access* access, uint32_t lane, int writes) {
  if (writes && !region->is_writable) return MC_READ_ONLY;
  /* Processors do not do atomic operations on memory that is not aligned; no compiler has seen this address. */
  if (access->is_store >= MC_ATOMIC && (uintptr_t)access->addr[lane] % access->elem_size) return MC_MISALIGNED;
  return 0;
}

void mc_slow_access(mc_launch* launch, const mc_access* access) {
  const uint32_t size = access->elem_size, kind = access->is_store;
  const int writes = kind == MC_STORE || kind == MC_ATOMIC;
  for (uint32_t mask = access->mask; mask; mask &= mask - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(mask);
    const char* addr = access->addr[lane];
    const char *lo = access->lo[lane], *hi = access->hi[lane];
    uint32_t refusal = 0;
    if (!lo && !hi) {
      const mc_region* region = find_region(launch, addr, size, writes);
      if (region) {
        lo = region->lo, hi = region->hi;
        if (inside(addr, size, lo, hi)) refusal = refuses(region, access, lane, writes);
      }
    }
    char* data = access->data ? (char*)access->data + (size_t)lane * size : 0;
    if (!refusal && inside(addr, size, lo, hi)) {
      if (kind == MC_LOAD) memcpy(data, addr, size);
      else if (kind == MC_STORE) memcpy((char*)addr, data, size);
    } else {
      if (kind != MC_STORE && data) memset(data, 0, size);
      record(launch, access, lane, refusal, lo, hi);
    }
  }
}

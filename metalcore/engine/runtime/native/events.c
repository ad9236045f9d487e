/* Events of a launch in sanitize mode: the first of each kind at a pair of sites is kept, all are counted. */
#include "sanitize.h"

void mc_event_add(mc_sanitizer* s, const mc_event* event) {
  mc_options* o = s->options;
  for (uint32_t i = 0; i < o->n_events; i++) {
    mc_event* known = &o->events[i];
    if (known->kind == event->kind && known->site == event->site && known->other_site == event->other_site) {
      known->count += event->count;
      return;
    }
  }
  if (o->n_events < MC_EVENTS) o->events[o->n_events++] = *event;
  else o->lost += event->count;
}

/* Threadgroups in the order in which this launch runs them; total has no factor in common with the step. */
uint64_t mc_nth_group(const mc_sanitizer* s, uint64_t n) {
  const uint32_t* groups = s->launch->groups;
  uint64_t total = (uint64_t)groups[0] * groups[1] * groups[2];
  if (!s->options->is_shuffled) return n;
  uint64_t seed = s->options->seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
  /* Below 2^20, so that the product stays within 64 bits for every grid that ends. */
  uint64_t step = 1 + (seed >> 7) % (total < 1u << 20 ? total : 1u << 20), start = (seed >> 13) % total;
  for (;; step++) { /* Euclid */
    uint64_t a = step, b = total;
    while (b) {
      uint64_t rest = a % b;
      a = b, b = rest;
    }
    if (a == 1) break;
  }
  return (step * n + start) % total;
}

static void position(const mc_sanitizer* s, uint64_t linear, uint32_t group[3]) {
  const uint32_t* groups = s->launch->groups;
  uint64_t row = linear / groups[0];
  group[0] = (uint32_t)(linear % groups[0]);
  group[1] = (uint32_t)(row % groups[1]);
  group[2] = (uint32_t)(row / groups[1]);
}

/* The threadgroup that ran at a time. */
void mc_event_group(const mc_sanitizer* s, uint32_t time, uint32_t group[3]) {
  uint64_t lo = s->lost_history, hi = s->groups_begun; /* the last one that began no later */
  while (hi - lo > 1) {
    uint64_t middle = (lo + hi) / 2;
    if (s->group_times[middle] <= time) lo = middle;
    else hi = middle;
  }
  position(s, mc_nth_group(s, lo), group);
}

/* Stores whose hooks found another thread's value there are done now: did the memory change? */
void mc_settle(mc_sanitizer* s) {
  for (uint32_t i = 0; i < s->n_pending; i++) {
    mc_pending* p = &s->pending[i];
    const uint8_t* now = (const uint8_t*)p->address;
    int same = 1;
    for (uint32_t at = 0; at < p->size; at++) same &= now[at] == p->before[at];
    if (same) p->event.kind = MC_SAME_VALUE_RACE;
    mc_event_add(s, &p->event);
  }
  s->n_pending = 0;
}

void mc_out_of_bounds(mc_sanitizer* s, const mc_access* access, uint32_t lane, uint32_t refusal, const char* lo,
                      const char* hi) {
  mc_event event = {.count = 1, .kind = MC_OUT_OF_BOUNDS, .site = access->site, .other_site = ~0u};
  event.access = access->is_store | refusal;
  event.address = (uint64_t)(uintptr_t)access->addr[lane];
  event.other_address = (uint64_t)(uintptr_t)lo;
  event.size = (uint64_t)(hi - lo);
  event.root = MC_ANY_ROOT;
  event.thread = access->base_thread + lane;
  for (int i = 0; i < 3; i++) event.group[i] = access->group[i];
  mc_event_add(s, &event);
}

/* Hooks of accesses: 32 lanes at a time in vector code where nothing is to be reported, else lane by lane. */
#include "sanitize.h"

static mc_shadow* shadow_of(mc_sanitizer* s, uint32_t root, uintptr_t address) {
  if (root < MC_ANY_ROOT) return s->roots[root];
  for (uint32_t i = 0; i < s->n_shadows; i++)
    if (address >= s->shadows[i].lo && address < s->shadows[i].hi) return &s->shadows[i];
  return 0;
}

static void report(mc_sanitizer* s, const mc_touch* t, const mc_event* event) {
  if (t->access == MC_STORE && event->other_access == MC_STORE && t->size <= sizeof s->pending[0].before &&
      s->n_pending < sizeof s->pending / sizeof s->pending[0]) {
    mc_pending* p = &s->pending[s->n_pending++];
    p->event = *event;
    p->address = t->address;
    p->size = t->size;
    memcpy(p->before, (const void*)t->address, t->size);
  } else {
    mc_event_add(s, event);
  }
}

typedef int64_t mc_four __attribute__((vector_size(32)));

typedef int64_t mc_four_in_memory __attribute__((vector_size(32), aligned(8), may_alias));

static inline mc_four load_four(const uint64_t* p) { return *(const mc_four_in_memory*)p; }
static inline void store_four(uint64_t* p, mc_four v) { *(mc_four_in_memory*)p = v; }

#define MC_THREADS ((int64_t)(1023ull << MC_THREAD_SHIFT | 1023ull << MC_SECOND_SHIFT))

typedef struct mc_window {
  int64_t floor, start, since; /* records below floor count as none; [start, since) are in order */
  int64_t own;                 /* records from here on are not in order with this simdgroup */
  int may_be_none;             /* whether an access may be the first of its granule */
} mc_window;

static mc_window window_of(const mc_sanitizer* s, const mc_touch* t) {
  const mc_shadow* shadow = t->shadow;
  uint32_t own = s->own_since[t->thread / MC_LANES][shadow->space], since = s->since[shadow->space];
  mc_window w;
  w.start = (int64_t)s->group_start << MC_TIME_SHIFT;
  w.floor = shadow->space == MC_GROUP_SPACE ? w.start : (int64_t)s->launch_start << MC_TIME_SHIFT;
  w.since = (int64_t)since << MC_TIME_SHIFT;
  w.own = (int64_t)(own > since ? own : since) << MC_TIME_SHIFT;
  w.may_be_none = !t->needs_value || t->access != MC_LOAD || s->has_forgotten || (shadow->space == MC_DEVICE_SPACE && !shadow->is_fresh);
  return w;
}

static inline mc_four is_read(mc_four old) { return (old & MC_WRITE) == 0; }

/* The same thread, and no barrier since that others would have seen. */
static inline mc_four is_own(mc_four old, mc_four next, const mc_window* w) {
  return (((old ^ next) & MC_THREADS) == 0) & (old >= w->own);
}

/* Lanes of -1 where nothing is to be reported. */
static inline mc_four is_fine(mc_four old, mc_four next, const mc_window* w, int is_load) {
  mc_four none = old < w->floor;
  mc_four same = is_own(old, next, w);
  mc_four older = (old >= w->start) & (old < w->since);
  if (!is_load) return none | same | older;
  mc_four fine = same | older | (is_read(old) & (old >= w->own));
  mc_four has_value = (old & MC_HAS_VALUE) != 0;
  return w->may_be_none ? fine | none : fine & has_value;
}

/* The records after an access that is fine. */
static inline mc_four merged(mc_four old, mc_four next, const mc_window* w, int is_load) {
  if (!is_load) return next;
  const int64_t second = 1023ll << MC_SECOND_SHIFT;
  mc_four same = is_own(old, next, w);
  mc_four shared = is_read(old) & (old >= w->own);
  mc_four one_reader = ((old >> (MC_THREAD_SHIFT - MC_SECOND_SHIFT) ^ old) & second) == 0;
  mc_four joins = one_reader & ~same & shared;
  mc_four kept = (joins & ((old & ~second) | (next & second))) | (~joins & old);
  mc_four has_value = (old >= w->floor) & (old & MC_HAS_VALUE);
  mc_four keeps = same | shared;
  return (keeps & kept) | (~keeps & (next | MC_READ | has_value));
}

static inline int all_set(mc_four v) { return (v[0] & v[1] & v[2] & v[3]) < 0; }
static inline int none_set(mc_four v) { return (v[0] | v[1] | v[2] | v[3]) >= 0; }

/* Lanes side by side, nothing to report. Returns 0 where it is not so. The sign of a sum of bits says whether all of
 * `old - floor` are negative, that is, all records are none. */
static inline __attribute__((always_inline)) int quick(uint64_t* records, uint32_t total, uint32_t per_lane, int64_t base,
                                                       const mc_window* w, int is_load) {
  const int64_t step = (int64_t)MC_THREAD_STEP;
  const mc_four start = per_lane == 1   ? (mc_four){base, base + step, base + 2 * step, base + 3 * step}
                        : per_lane == 2 ? (mc_four){base, base, base + step, base + step}
                                        : (mc_four){base, base, base, base};
  const int64_t second = 1023ll << MC_SECOND_SHIFT;
  const mc_four zero = {0, 0, 0, 0}, floor = zero + w->floor, since = zero + w->since, own = zero + w->own;
  mc_four below = {-1, -1, -1, -1}, before = below, value = below; /* true of all */
  mc_four any_below = zero, any_early = zero, any_bit = zero, differs = zero, alone = zero; /* true of any */
  for (uint32_t i = 0; i < total; i += 4) {
    mc_four old = load_four(records + i);
    below &= old - floor;
    before &= old - since;
    any_early |= old - own;
    differs |= old ^ (start + step * (int64_t)(i / per_lane));
    if (!is_load) continue;
    any_below |= old - floor;
    value &= old;
    any_bit |= old;
    alone |= ((old >> (MC_THREAD_SHIFT - MC_SECOND_SHIFT) ^ old) & second) == 0;
  }
  const int is_group = w->floor == w->start; /* none and older are one range */
  const int is_recent = none_set(any_early);
  const int is_same = is_recent && !((differs[0] | differs[1] | differs[2] | differs[3]) & MC_THREADS);
  int64_t kind = 0;
  if (is_load) {
    const int has_value = (value[0] & value[1] & value[2] & value[3] & MC_HAS_VALUE) != 0;
    const int is_shared = is_recent && none_set(alone) && !((any_bit[0] | any_bit[1] | any_bit[2] | any_bit[3]) & MC_WRITE);
    if ((is_same || is_shared) && (w->may_be_none || has_value)) return 1;
    if (w->may_be_none && all_set(below)) kind = MC_READ;
    else if (is_group && has_value && all_set(before) && none_set(any_below)) kind = MC_READ_WRITTEN;
  } else {
    kind = is_same || all_set(below) || (is_group && all_set(before));
  }
  if (kind) {
    const mc_four first = is_load ? start + kind : start;
    for (uint32_t i = 0; i < total; i += 4) store_four(records + i, first + step * (int64_t)(i / per_lane));
    return 1;
  }
  mc_four fine = {-1, -1, -1, -1};
  for (uint32_t i = 0; i < total; i += 4)
    fine &= is_fine(load_four(records + i), start + step * (int64_t)(i / per_lane), w, is_load);
  if (!all_set(fine)) return 0;
  for (uint32_t i = 0; i < total; i += 4)
    store_four(records + i, merged(load_four(records + i), start + step * (int64_t)(i / per_lane), w, is_load));
  return 1;
}

static int quick_row(mc_sanitizer* s, const mc_touch* t, uint32_t lanes, uint32_t per_lane) {
  const mc_shadow* shadow = t->shadow;
  uint64_t* records = shadow->records + ((t->address - shadow->lo) >> shadow->shift);
  const mc_window w = window_of(s, t);
  const uint32_t kind = t->access == MC_STORE ? MC_WRITTEN : 0;
  const int64_t base = (int64_t)mc_record(s->time, t->thread, t->thread, t->site, 15, kind);
  if (lanes == MC_LANES && per_lane == 1) /* the common case, with everything known */
    return kind ? quick(records, MC_LANES, 1, base, &w, 0) : quick(records, MC_LANES, 1, base, &w, 1);
  if (lanes * per_lane % 4) return 0;
  return kind ? quick(records, lanes * per_lane, per_lane, base, &w, 0)
              : quick(records, lanes * per_lane, per_lane, base, &w, 1);
}

/* One place that all lanes read: two of them stand for all. Returns 0 where it needs a closer look. */
static int quick_place(const mc_sanitizer* s, const mc_touch* t, uint32_t lanes) {
  const mc_shadow* shadow = t->shadow;
  if (t->address < shadow->lo || t->address >= shadow->hi || t->size != 1u << shadow->shift) return 0;
  uint64_t *record = &shadow->records[(t->address - shadow->lo) >> shadow->shift], old = *record;
  const mc_window w = window_of(s, t);
  const int64_t at = (int64_t)old;
  uint32_t kind = mc_kind_of(old);
  if (!(kind & MC_HAS_VALUE) && !w.may_be_none) return 0;
  if (at >= w.own) return !(kind & MC_WRITE) && mc_thread_of(old) != mc_second_of(old);
  if (at < w.floor) kind = MC_READ;
  else if (at >= w.start && at < w.since) kind = kind & MC_HAS_VALUE ? MC_READ_WRITTEN : MC_READ;
  else return 0;
  if (!(kind & MC_HAS_VALUE) && !w.may_be_none) return 0;
  uint32_t first = t->thread + (uint32_t)__builtin_ctz(lanes), last = t->thread + 31 - (uint32_t)__builtin_clz(lanes);
  *record = mc_record(s->time, first, last, t->site, 15, kind);
  return 1;
}

static mc_touch touch_of(mc_sanitizer* s, uint32_t meta, uintptr_t address, uint32_t size) {
  uint32_t site = meta & 0xffff;
  mc_touch t = {.access = meta >> 16 & 15, .site = site, .size = size};
  t.address = address;
  t.meta = meta;
  t.needs_value = t.access != MC_STORE && !(meta & MC_META_NEEDS_NO_VALUE);
  t.shadow = shadow_of(s, meta >> 24, address);
  return t;
}

/* Returns whether it reads what has no value. */
static uint32_t touch_lane(mc_sanitizer* s, mc_touch* t, uintptr_t address, uint32_t thread) {
  mc_event event;
  t->address = address;
  t->thread = thread;
  t->is_unset = 0;
  if (mc_touch_all(s, t, &event)) report(s, t, &event);
  return t->is_unset;
}

uint32_t mc_track_row(mc_sanitizer* s, uintptr_t base, int64_t stride, uint32_t size, uint32_t meta, uint32_t lanes,
                  uint32_t first_thread) {
  if (s->n_pending) mc_settle(s);
  mc_touch t = touch_of(s, meta, base, size);
  const mc_shadow* shadow = t.shadow;
  if (!shadow || !lanes) return 0;
  t.thread = first_thread;
  const uint32_t n = lanes == ~0u ? MC_LANES : (uint32_t)__builtin_ctz(~lanes); /* lanes 0 to n - 1, where it is so */
  const int is_block = lanes == ~0u || !(lanes & (lanes + 1));
  if (is_block && stride == (int64_t)size && t.access != MC_ATOMIC && base >= shadow->lo && base < shadow->hi &&
      shadow->hi - base >= n * (uint64_t)size && !((base - shadow->lo) & ((1u << shadow->shift) - 1))) {
    uint32_t per_lane = size >> shadow->shift;
    if (per_lane && !(per_lane & (per_lane - 1)) && per_lane << shadow->shift == size && quick_row(s, &t, n, per_lane))
      return 0;
  }
  uint32_t unset = 0, every = 0;
  if (!stride && t.access == MC_LOAD) { /* two readers of one place stand for all */
    if (quick_place(s, &t, lanes)) return 0;
    every = lanes;
    lanes = 1u << __builtin_ctz(lanes) | 0x80000000u >> __builtin_clz(lanes);
  }
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(rest);
    unset |= touch_lane(s, &t, base + (uintptr_t)(stride * lane), first_thread + lane) << lane;
  }
  return unset ? unset | every : 0;
}

uint32_t mc_track_lanes(mc_sanitizer* s, const uintptr_t* addresses, const uint64_t* values, uint32_t size, uint32_t meta,
                    uint32_t lanes, uint32_t first_thread) {
  if (s->n_pending) mc_settle(s);
  const uint64_t bits = size >= 8 ? ~0ull : (1ull << (8 * size)) - 1;
  uint32_t unset = 0;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(rest);
    mc_touch t = touch_of(s, meta, addresses[lane], size);
    if (!t.shadow) continue;
    t.thread = first_thread + lane;
    mc_event event;
    const int conflicts = mc_touch_all(s, &t, &event);
    unset |= t.is_unset << lane;
    if (!conflicts) continue;
    uint32_t twin = MC_LANES; /* an earlier lane of this very store */
    if (values && event.other_access == MC_STORE)
      for (uint32_t i = 0; i < lane; i++)
        if (lanes >> i & 1 && addresses[i] == addresses[lane]) twin = i;
    if (twin < MC_LANES && event.other_thread == first_thread + twin) {
      if (!((values[twin] ^ values[lane]) & bits)) event.kind = MC_SAME_VALUE_RACE;
      mc_event_add(s, &event);
    } else {
      report(s, &t, &event);
    }
  }
  return unset;
}

/* An 8x8 matrix: lane l holds elements (row, column) and (row, column + 1). */
static uint32_t holder(uint32_t row, uint32_t column) {
  return (row & 4) << 2 | (column & 4) << 1 | (row & 3) << 1 | (column >> 1 & 1);
}

void mc_track_matrix(mc_sanitizer* s, uintptr_t base, int64_t stride, uint32_t size, uint32_t transposed, uint32_t meta,
                     uint32_t first_thread) {
  if (s->n_pending) mc_settle(s);
  mc_touch t = touch_of(s, meta, base, size);
  const mc_shadow* shadow = t.shadow;
  if (!shadow) return;
  t.thread = first_thread;
  const mc_window w = window_of(s, &t);
  const uint32_t kind = t.access == MC_STORE ? MC_WRITTEN : 0;
  for (uint32_t line = 0; line < 8; line++) {
    uintptr_t at = base + (uintptr_t)(stride * line);
    int done = 0;
    if (at >= shadow->lo && at < shadow->hi && shadow->hi - at >= 8 * size && size == 1u << shadow->shift &&
        !((at - shadow->lo) & (size - 1))) {
      uint64_t* records = shadow->records + ((at - shadow->lo) >> shadow->shift);
      mc_four next[2], fine = {-1, -1, -1, -1};
      for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t i = 0; i < 4; i++) {
          uint32_t other = 4 * half + i, thread = first_thread;
          thread += transposed ? holder(other, line) : holder(line, other);
          next[half][i] = (int64_t)mc_record(s->time, thread, thread, t.site, 15, kind);
        }
        fine &= is_fine(load_four(records + 4 * half), next[half], &w, !kind);
      }
      done = all_set(fine);
      for (uint32_t half = 0; half < 2 && done; half++) {
        mc_four result = merged(load_four(records + 4 * half), next[half], &w, !kind);
        store_four(records + 4 * half, result);
      }
    }
    for (uint32_t i = 0; i < 8 && !done; i++)
      touch_lane(s, &t, at + (uintptr_t)i * size, first_thread + (transposed ? holder(i, line) : holder(line, i)));
  }
}

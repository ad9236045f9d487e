/* Shadow records: who touched each granule of watched memory last, and whether that was in order. */
#include "sanitize.h"

typedef struct mc_touch {
  mc_shadow* shadow;
  uint32_t access, site, thread, size;
  uint32_t needs_value; /* it reads what is there */
  uint32_t meta;
  uint32_t is_unset; /* set where what it reads has no value */
  uintptr_t address;
} mc_touch;

static mc_shadow* shadow_of(mc_sanitizer* s, uint32_t root, uintptr_t address) {
  if (root < MC_ANY_ROOT) return s->roots[root];
  for (uint32_t i = 0; i < s->n_shadows; i++)
    if (address >= s->shadows[i].lo && address < s->shadows[i].hi) return &s->shadows[i];
  return 0;
}

static mc_event event_of(const mc_sanitizer* s, const mc_touch* t, uint32_t kind) {
  mc_event event = {.count = 1, .kind = kind, .site = t->site, .other_site = ~0u, .access = t->access};
  event.root = t->shadow->root;
  event.address = t->shadow->space == MC_GROUP_SPACE ? t->address - t->shadow->lo : t->address;
  event.thread = t->thread;
  for (int i = 0; i < 3; i++) event.group[i] = s->worker->group_pos[i];
  return event;
}

/* Whether no barrier orders an access of another thread at `time` before what `thread` does now. */
static int is_unordered(const mc_sanitizer* s, uint32_t space, uint32_t time, uint32_t other, uint32_t thread) {
  if (other == thread || time < s->since[space]) return 0;
  return other / MC_LANES != thread / MC_LANES || time >= s->own_since[thread / MC_LANES][space];
}

static uint32_t conflict_kind(const mc_sanitizer* s, uint64_t old, uint32_t other, uint32_t other_access,
                              const mc_touch* t) {
  uint32_t time = mc_time_of(old), simdgroup = t->thread / MC_LANES;
  if (time < s->since_any) return MC_WRONG_FENCE;
  if (other / MC_LANES != simdgroup) return MC_RACE;
  if (time < s->own_since_any[simdgroup]) return MC_WRONG_FENCE;
  /* Lanes that write one place in one statement: no barrier would help. */
  const int both_store = t->access == MC_STORE && other_access == MC_STORE;
  return both_store && mc_site_of(old) == t->site ? MC_RACE : MC_SIMDGROUP_RACE;
}

static uint32_t access_of(uint32_t kind) {
  return kind & MC_ATOMICALLY ? MC_ATOMIC : kind & MC_WRITE ? MC_STORE : MC_LOAD;
}

/* One granule. Returns 1 and fills `found` where two accesses conflict. */
static int touch(mc_sanitizer* s, mc_touch* t, uint64_t* record, uint32_t mask, mc_event* found) {
  const mc_shadow* shadow = t->shadow;
  const uint32_t space = shadow->space, thread = t->thread, is_load = t->access == MC_LOAD;
  uint64_t old = *record;
  /* Of the threadgroup before, or of a launch before. */
  if (mc_time_of(old) < (space == MC_GROUP_SPACE ? s->group_start : s->launch_start)) old = 0;
  uint32_t kind = mc_kind_of(old), time = mc_time_of(old);
  if (t->needs_value && !(kind & MC_HAS_VALUE) && mask == 15 && (space == MC_GROUP_SPACE || shadow->is_fresh)) {
    mc_event event = event_of(
        s, t, space == MC_GROUP_SPACE ? MC_UNINITIALISED_GROUP_MEMORY : MC_UNINITIALISED_OUTPUT);
    if (t->meta & MC_META_ASKS) {
      /* The read of a thread that stored what had no value is the one to name. */
      const mc_event* origin = kind ? &s->unset_reads[mc_thread_of(old)] : 0;
      s->unset_reads[thread] = origin && origin->count ? *origin : event;
      t->is_unset = s->any_unset = 1;
    } else {
      mc_event_add(s, &event);
    }
  }
  const uint32_t new_kind = t->access == MC_STORE    ? MC_WRITTEN
                            : t->access == MC_ATOMIC ? MC_TOUCHED_ATOMICALLY
                            : kind & MC_HAS_VALUE    ? MC_READ_WRITTEN
                                                     : MC_READ;
  const uint64_t fresh = mc_record(s->time, thread, thread, t->site, mask, new_kind);
  if (!kind) {
    *record = fresh;
    return 0;
  }
  const int old_writes = kind & MC_WRITES, both_atomic = kind & MC_ATOMICALLY && t->access == MC_ATOMIC;
  const int overlaps = (mask & mc_mask_of(old)) && !both_atomic;
  const int clashes = (!is_load || old_writes) && overlaps;
  const uint32_t first = mc_thread_of(old), second = mc_second_of(old);
  if (time < s->group_start) { /* another threadgroup */
    const int hides_write = !old_writes && kind & MC_HAS_VALUE; /* that threadgroup wrote it and then read it */
    if ((clashes || (hides_write && overlaps)) && time >= s->since_fence) {
      *found = event_of(s, t, MC_RACE_BETWEEN_GROUPS);
      found->other_site = is_load && hides_write ? MC_NO_SITE : mc_site_of(old);
      found->other_thread = first;
      found->other_access = access_of(is_load && hides_write ? MC_WRITTEN : kind);
      mc_event_group(s, time, found->other_group);
      if (!is_load) *record = fresh;
      return 1;
    }
    if (!is_load || old_writes) *record = fresh; /* else the read of the other threadgroup stays: writers clash with it */
    return 0;
  }
  /* A write that threads of its simdgroup have read behind a barrier of their own: it is open to the others alone. */
  const int is_read_write = kind & MC_READ && kind & MC_WRITE;
  int first_open = is_unordered(s, space, time, first, thread);
  int second_open = is_unordered(s, space, time, second, thread);
  if (is_read_write && first / MC_LANES == thread / MC_LANES) first_open = 0;
  if (is_read_write && is_load) second_open = 0;
  if (clashes && (first_open || second_open)) {
    uint32_t other = first_open ? first : second;
    uint32_t other_access = access_of(is_read_write && !first_open ? MC_READ : kind);
    *found = event_of(s, t, conflict_kind(s, old, other, other_access, t));
    found->other_site = is_read_write && !first_open ? MC_NO_SITE : mc_site_of(old);
    found->other_thread = other;
    found->other_access = other_access;
    for (int i = 0; i < 3; i++) found->other_group[i] = s->worker->group_pos[i];
    if (!is_load) *record = fresh;
    return 1;
  }
  if (is_load && old_writes) { /* one's own write stays, as long as others may clash with it */
    if (time < s->since[space]) *record = fresh;
    else if (first != thread) *record = mc_record(s->time, first, thread, mc_site_of(old), mask, kind | MC_READ);
    else return 0;
  } else if (is_load || both_atomic) {
    /* Another reader stays, with its site: who reads is often the one who writes next. */
    uint32_t kept = first_open ? first : second;
    *record = first_open || second_open ? mc_record(s->time, kept, thread, mc_site_of(old), mask, new_kind) : fresh;
  } else {
    *record = fresh;
  }
  if (mask != 15 && first == thread && time == s->time) *record |= (uint64_t)mc_mask_of(old) << MC_MASK_SHIFT;
  return 0;
}

/* Which quarters of a granule an access smaller than it touches. */
static uint32_t part_mask(uintptr_t offset, uint32_t size, uint32_t granule) {
  uint32_t quarter = granule / 4, from = (uint32_t)(offset & (granule - 1)) / quarter, n = (size + quarter - 1) / quarter;
  return ((1u << n) - 1) << from & 15;
}

/* One thread's access of any size: at most one conflict is reported for it. */
static int touch_all(mc_sanitizer* s, mc_touch* t, mc_event* found) {
  const mc_shadow* shadow = t->shadow;
  if (t->address < shadow->lo || t->address > shadow->hi || shadow->hi - t->address < t->size) return 0;
  uintptr_t offset = t->address - shadow->lo;
  uint32_t granule = 1u << shadow->shift;
  uint64_t *record = shadow->records + (offset >> shadow->shift);
  uint64_t *last = shadow->records + ((offset + t->size - 1) >> shadow->shift);
  if (t->size < granule && record == last) return touch(s, t, record, part_mask(offset, t->size, granule), found);
  if (t->meta & MC_META_LOSES) {
    for (; record <= last; record++) *record &= ~(uint64_t)MC_HAS_VALUE;
    return 0;
  }
  int any = 0;
  mc_event more;
  for (; record <= last; record++) any |= touch(s, t, record, 15, any ? &more : found);
  return any;
}

static void report(mc_sanitizer* s, const mc_touch* t, const mc_event* event) {
  if (t->access == MC_STORE && event->other_access == MC_STORE && t->size <= sizeof s->pending[0].before &&
      s->n_pending < MC_LANES) {
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
  w.may_be_none = t->access != MC_LOAD || (shadow->space == MC_DEVICE_SPACE && !shadow->is_fresh);
  return w;
}

static inline mc_four is_read(mc_four old) { return (old & MC_WRITES) == 0; }

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
    const int is_shared = is_recent && none_set(alone) && !((any_bit[0] | any_bit[1] | any_bit[2] | any_bit[3]) & MC_WRITES);
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
  if (at >= w.own) return !(kind & MC_WRITES) && mc_thread_of(old) != mc_second_of(old);
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
  mc_touch t = {.access = meta >> 16 & 15, .site = site < MC_NO_SITE ? site : MC_NO_SITE, .size = size};
  t.address = address;
  t.meta = meta;
  t.needs_value = t.access == MC_LOAD || (t.access == MC_ATOMIC && !(meta & MC_META_NEEDS_NO_VALUE));
  t.shadow = shadow_of(s, meta >> 24, address);
  return t;
}

/* Returns whether it reads what has no value. */
static uint32_t touch_lane(mc_sanitizer* s, mc_touch* t, uintptr_t address, uint32_t thread) {
  mc_event event;
  t->address = address;
  t->thread = thread;
  t->is_unset = 0;
  if (touch_all(s, t, &event)) report(s, t, &event);
  return t->is_unset;
}

/* A value of lanes matters that have none: from a read of threadgroup memory of their own, of their simdgroup or of
 * their threadgroup, or else from a variable. */
void mc_at_use_of_unset(mc_sanitizer* s, uint32_t place, uint32_t lanes, uint32_t first_thread) {
  const mc_event* read = 0;
  for (uint32_t rest = lanes; rest && !read; rest &= rest - 1) {
    const mc_event* own = &s->unset_reads[first_thread + (uint32_t)__builtin_ctz(rest)];
    if (own->count) read = own;
  }
  for (uint32_t i = 0; s->any_unset && i < MC_LANES && !read; i++)
    if (s->unset_reads[first_thread + i].count) read = &s->unset_reads[first_thread + i];
  for (uint32_t i = 0; s->any_unset && i < s->n_threads && !read; i++)
    if (s->unset_reads[i].count) read = &s->unset_reads[i];
  if (read) {
    mc_event event = *read;
    event.count = (uint64_t)__builtin_popcount(lanes);
    mc_event_add(s, &event);
    return;
  }
  mc_report(s->launch, s->worker, place, lanes, first_thread);
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
    const int conflicts = touch_all(s, &t, &event);
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

/* One thread's access: who touched each granule last, and whether that was in order. */
#include "sanitize.h"

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
  /* A fence of device scope in front of a barrier of whatever flags. */
  if (space == MC_DEVICE_SPACE && time < s->since_fence && time < s->since_any) return 0;
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
  const uint32_t site = t->site < MC_NO_SITE ? t->site : MC_NO_SITE;
  return both_store && mc_site_of(old) == site ? MC_RACE : MC_SIMDGROUP_RACE;
}

/* A read of what has no value: reported now, or, of threadgroup memory, when the value matters. */
static void read_unset(mc_sanitizer* s, mc_touch* t, uint64_t old) {
  const int is_group = t->shadow->space == MC_GROUP_SPACE;
  mc_event event = event_of(s, t, is_group ? MC_UNINITIALISED_GROUP_MEMORY : MC_UNINITIALISED_OUTPUT);
  if (!(t->meta & MC_META_ASKS)) {
    mc_event_add(s, &event);
    return;
  }
  /* The read of a thread that stored what had no value is the one to name. */
  const mc_event* origin = mc_kind_of(old) ? &s->unset_reads[mc_thread_of(old)] : 0;
  s->unset_reads[t->thread] = origin && origin->count ? *origin : event;
  t->is_unset = s->any_unset = 1;
}

static uint32_t access_of(uint32_t kind) {
  return kind & MC_ATOMICALLY ? MC_ATOMIC : kind & MC_WRITE ? MC_STORE : MC_LOAD;
}

/* One granule. Returns 1 and fills `found` where two accesses conflict. */
static int touch(mc_sanitizer* s, mc_touch* t, uint64_t* record, uint32_t mask, mc_event* found) {
  const mc_shadow* shadow = t->shadow;
  const uint32_t space = shadow->space, thread = t->thread, is_atomic = t->access == MC_ATOMIC;
  const int is_load = t->access == MC_LOAD || (is_atomic && t->meta & MC_META_ONLY_READS);
  uint64_t old = *record;
  /* Of the threadgroup before, of a launch before, or of another part of the granule: none. */
  if (mc_time_of(old) < (space == MC_GROUP_SPACE ? s->group_start : s->launch_start) || !(mask & mc_mask_of(old))) old = 0;
  const uint32_t kind = mc_kind_of(old), time = mc_time_of(old);
  if (t->needs_value && !(kind & MC_HAS_VALUE) && mask == 15 && !s->has_forgotten &&
      (space == MC_GROUP_SPACE || shadow->is_fresh))
    read_unset(s, t, old);
  uint32_t new_kind = is_load ? MC_READ | (kind & MC_HAS_VALUE) : MC_WRITTEN;
  if (is_atomic) new_kind |= MC_ATOMICALLY;
  const uint64_t fresh = mc_record(s->time, thread, thread, t->site, mask, new_kind);
  if (!kind) {
    *record = fresh;
    return 0;
  }
  const int old_writes = (kind & MC_WRITE) != 0, both_atomic = is_atomic && kind & MC_ATOMICALLY;
  const int clashes = (!is_load || old_writes) && !both_atomic;
  const uint32_t first = mc_thread_of(old), second = mc_second_of(old);
  if (time < s->group_start) { /* another threadgroup */
    const int hides_write = !old_writes && kind & MC_HAS_VALUE; /* that threadgroup wrote it and then read it */
    if ((clashes || (hides_write && !both_atomic)) && time >= s->since_fence) {
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
  const int is_read_write = kind & MC_READ && old_writes;
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
  const int is_open = time >= s->since[space]; /* to threads of other simdgroups, at least */
  if (!is_open) {
    *record = fresh;
  } else if (is_atomic && old_writes && first == thread && !both_atomic) {
    return 0; /* one's own plain write stays: atomics of others clash with it */
  } else if (old_writes && is_load && !both_atomic) {
    /* A write stays, as long as others may clash with it. One that was atomic is that no more: this read is plain. */
    *record = mc_record(s->time, first, thread, mc_site_of(old), mask, (kind | MC_READ) & ~(uint32_t)MC_ATOMICALLY);
    if (first == thread) *record = (old & ~(uint64_t)MC_ATOMICALLY);
  } else if (is_load || both_atomic) {
    /* Another one stays, with its site: who reads is often the one who writes next. */
    const uint32_t kept = first_open ? first : second, is_kept = first_open || second_open;
    if (old_writes) new_kind |= kind & MC_WRITE;
    if (!both_atomic) new_kind &= ~(uint32_t)MC_ATOMICALLY; /* a plain reader is among them */
    *record = is_kept ? mc_record(s->time, kept, thread, mc_site_of(old), mask, new_kind)
                      : mc_record(s->time, thread, thread, t->site, mask, new_kind);
  } else {
    *record = fresh;
  }
  return 0;
}

static const uint8_t threads_of[MC_SHARED][MC_BLOCK] = {
    [MC_ROW] = {0, 1, 2, 3, 4, 5, 6, 7},  [MC_PAIRS] = {0, 0, 1, 1, 2, 2, 3, 3},    [MC_QUARTERS] = {0, 0, 0, 0, 1, 1, 1, 1},
    [MC_LINE] = {0, 0, 1, 1, 8, 8, 9, 9}, [MC_COLUMN] = {0, 2, 4, 6, 16, 18, 20, 22}};

void mc_write_records(uint64_t* records, uint64_t word) {
  const uint8_t* threads = threads_of[mc_mask_of(word)];
  for (uint32_t i = 0; i < MC_BLOCK; i++) records[i] = (word | 15 << MC_MASK_SHIFT) + MC_THREAD_STEP * threads[i];
}

/* Which quarters of a granule an access smaller than it touches. */
static uint32_t part_mask(uintptr_t offset, uint32_t size, uint32_t granule) {
  uint32_t quarter = granule / 4, from = (uint32_t)(offset & (granule - 1)) / quarter, n = (size + quarter - 1) / quarter;
  return ((1u << n) - 1) << from & 15;
}

/* One thread's access of any size: at most one conflict is reported for it. */
int mc_touch_all(mc_sanitizer* s, mc_touch* t, mc_event* found) {
  const mc_shadow* shadow = t->shadow;
  if (t->address < shadow->lo || t->address > shadow->hi || shadow->hi - t->address < t->size) return 0;
  uintptr_t offset = t->address - shadow->lo;
  uint32_t granule = 1u << shadow->shift;
  uint64_t *record = shadow->records + (offset >> shadow->shift);
  uint64_t *last = shadow->records + ((offset + t->size - 1) >> shadow->shift);
  mc_open(s, shadow, (uint64_t)(record - shadow->records), (uint64_t)(last - record) + 1);
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
  s->launch->report(s->launch, s->worker, place, lanes, first_thread);
}

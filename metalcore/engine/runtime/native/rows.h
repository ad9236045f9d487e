/* Rows of records in vector code, where nothing is to be reported. Each function returns 0 where it needs a closer look. */
#ifndef METALCORE_ROWS_H
#define METALCORE_ROWS_H

#include "sanitize.h"

typedef int64_t mc_four __attribute__((vector_size(32)));
typedef int32_t mc_eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef int64_t mc_four_in_memory __attribute__((vector_size(32), aligned(8), may_alias));

#define MC_INLINE static inline __attribute__((always_inline))
#define MC_THREADS ((int64_t)(1023ull << MC_THREAD_SHIFT | 1023ull << MC_SECOND_SHIFT))
#define MC_SECOND (1023ll << MC_SECOND_SHIFT)

MC_INLINE mc_four load_four(const uint64_t* p) { return *(const mc_four_in_memory*)p; }
MC_INLINE void store_four(uint64_t* p, mc_four v) { *(mc_four_in_memory*)p = v; }
MC_INLINE mc_four all_of(int64_t x) { return (mc_four){x, x, x, x}; }

/* A truth is the sign of a number: compares of vectors take more instructions to combine. No record has a sign. */
MC_INLINE int all_negative(mc_four v) { return __builtin_reduce_and(v) < 0; }
MC_INLINE int any_negative(mc_four v) { return __builtin_reduce_or(v) < 0; }
MC_INLINE mc_four is_before(mc_four old, int64_t limit) { return old - limit; }
MC_INLINE mc_four has_bit(mc_four old, int64_t bit) { return old << (63 - __builtin_ctzll((uint64_t)bit)); }
MC_INLINE mc_four is_zero(mc_four bits) { return bits - 1; }
MC_INLINE mc_four choose(mc_four truth, mc_four yes, mc_four no) {
  const mc_four mask = truth < 0;
  return (mask & yes) | (~mask & no);
}

typedef struct mc_window {
  int64_t floor, start, since; /* records below floor count as none; [start, since) are in order */
  int64_t own;                 /* records from here on are not in order with this simdgroup */
  uint32_t own_time;           /* the same as a time */
  int is_group;                /* threadgroup memory: floor is start */
  int may_be_none;             /* whether an access may be the first of its granule */
} mc_window;

MC_INLINE mc_window window_of(const mc_sanitizer* s, const mc_touch* t) {
  const mc_shadow* shadow = t->shadow;
  uint32_t own = s->own_since[t->thread / MC_LANES][shadow->space], since = s->since[shadow->space];
  mc_window w;
  w.is_group = shadow->space == MC_GROUP_SPACE;
  w.start = (int64_t)s->group_start << MC_TIME_SHIFT;
  w.floor = w.is_group ? w.start : (int64_t)s->launch_start << MC_TIME_SHIFT;
  w.since = (int64_t)since << MC_TIME_SHIFT;
  w.own_time = own > since ? own : since;
  w.own = (int64_t)w.own_time << MC_TIME_SHIFT;
  w.may_be_none = !t->needs_value || t->access != MC_LOAD || s->has_forgotten || (!w.is_group && !shadow->is_fresh);
  return w;
}

/* -- blocks of threadgroup memory that are known to be read by two threads each: reads of them change nothing -------- */
MC_INLINE int is_shared(const mc_sanitizer* s, uint64_t at, uint32_t n, uint32_t own_time) {
  if (at % MC_BLOCK || n % MC_BLOCK || at + n > MC_BLOCK * MC_SHARED_BLOCKS) return 0;
  const uint32_t *block = s->shared + at / MC_BLOCK, *end = block + n / MC_BLOCK;
  mc_eight early = {0};
  for (; end - block >= 8; block += 8) early |= *(const mc_eight*)block - (int32_t)own_time;
  if (__builtin_reduce_or(early) < 0) return 0;
  for (; block < end; block++)
    if (*block < own_time) return 0;
  return 1;
}

MC_INLINE void set_shared(mc_sanitizer* s, uint64_t at, uint32_t n, uint32_t own_time) {
  if (at % MC_BLOCK || n % MC_BLOCK || at + n > MC_BLOCK * MC_SHARED_BLOCKS) return;
  for (uint32_t i = 0; i < n / MC_BLOCK; i++) s->shared[at / MC_BLOCK + i] = own_time;
}

/* -- any mixture of records ------------------------------------------------------------------------------------------ */
/* The same thread, and no barrier since that others would have seen. */
MC_INLINE mc_four is_own(mc_four old, mc_four next, const mc_window* w) {
  return is_zero((old ^ next) & MC_THREADS) & ~is_before(old, w->own);
}

/* Read, and not in order. */
MC_INLINE mc_four is_open_read(mc_four old, const mc_window* w) {
  return ~has_bit(old, MC_WRITE) & ~is_before(old, w->own);
}

MC_INLINE mc_four has_one_thread(mc_four old) {
  return is_zero((old >> (MC_THREAD_SHIFT - MC_SECOND_SHIFT) ^ old) & MC_SECOND);
}

/* Where nothing is to be reported. */
MC_INLINE mc_four is_fine(mc_four old, mc_four next, const mc_window* w, int is_load) {
  mc_four none = is_before(old, w->floor);
  mc_four same = is_own(old, next, w);
  mc_four older = ~is_before(old, w->start) & is_before(old, w->since);
  if (!is_load) return none | same | older;
  mc_four fine = same | older | is_open_read(old, w);
  return w->may_be_none ? fine | none : fine & has_bit(old, MC_HAS_VALUE);
}

/* The records after an access that is fine. */
MC_INLINE mc_four merged(mc_four old, mc_four next, const mc_window* w, int is_load) {
  if (!is_load) return next;
  mc_four same = is_own(old, next, w), shared = is_open_read(old, w);
  mc_four joins = has_one_thread(old) & ~same & shared;
  mc_four kept = choose(joins, (old & ~MC_SECOND) | (next & MC_SECOND), old);
  mc_four has_value = choose(is_before(old, w->floor), all_of(0), old & MC_HAS_VALUE);
  return choose(same | shared, kept, next | MC_READ | has_value);
}

/* -- rows whose records are alike ------------------------------------------------------------------------------------ */
/* What an access writes: the record of element i is `start` plus a step for each lane before its own. */
typedef struct mc_next {
  mc_four start;
  uint32_t per_lane; /* records of one lane; 0: one place after the other, each read by the same two lanes */
} mc_next;

MC_INLINE mc_four next_at(const mc_next* next, uint32_t i) {
  return next->per_lane ? next->start + (int64_t)MC_THREAD_STEP * (int64_t)(i / next->per_lane) : next->start;
}

MC_INLINE void fill(uint64_t* records, uint32_t n, const mc_next* next, int64_t kind) {
  for (uint32_t i = 0; i < n; i += 4) store_four(records + i, next_at(next, i) | kind);
}

MC_INLINE int all_before(const uint64_t* records, uint32_t n, int64_t limit) {
  mc_four before = all_of(-1);
  for (uint32_t i = 0; i < n; i += 4) before &= is_before(load_four(records + i), limit);
  return all_negative(before);
}

/* Written or read in this threadgroup, in order, and with a value. */
MC_INLINE int all_older(const uint64_t* records, uint32_t n, const mc_window* w) {
  mc_four before = all_of(-1), early = all_of(0);
  for (uint32_t i = 0; i < n; i += 4) {
    mc_four old = load_four(records + i);
    before &= is_before(old, w->since) & has_bit(old, MC_HAS_VALUE);
    early |= is_before(old, w->floor);
  }
  return all_negative(before) && !any_negative(early);
}

/* The last access was the same thread's, and nobody has seen a barrier since. */
MC_INLINE int all_own(const uint64_t* records, uint32_t n, const mc_next* next, const mc_window* w, int needs_value) {
  mc_four early = all_of(0), differs = early, value = all_of(-1);
  for (uint32_t i = 0; i < n; i += 4) {
    mc_four old = load_four(records + i);
    early |= is_before(old, w->own);
    differs |= old ^ next_at(next, i);
    value &= old;
  }
  return !any_negative(early) && !(__builtin_reduce_or(differs) & MC_THREADS) &&
         (!needs_value || __builtin_reduce_and(value) & MC_HAS_VALUE);
}

/* Two threads have read each. */
MC_INLINE int all_shared(const uint64_t* records, uint32_t n, const mc_window* w, int needs_value) {
  mc_four early = all_of(0), bits = early, alone = early, value = all_of(-1);
  for (uint32_t i = 0; i < n; i += 4) {
    mc_four old = load_four(records + i);
    early |= is_before(old, w->own);
    bits |= old;
    value &= old;
    alone |= has_one_thread(old);
  }
  return !any_negative(early | alone) && !(__builtin_reduce_or(bits) & MC_WRITE) &&
         (!needs_value || __builtin_reduce_and(value) & MC_HAS_VALUE);
}

/* n records (a multiple of four) from number `at` on. The first tells which question to ask of all of them. */
MC_INLINE int quick(mc_sanitizer* s, const mc_shadow* shadow, uint64_t at, uint32_t n, const mc_next* next,
                    const mc_window* w, int is_load) {
  uint64_t* records = shadow->records + at;
  const int64_t first = (int64_t)records[0];
  if (is_load && w->is_group && is_shared(s, at, n, w->own_time)) return 1;
  int64_t kind = -1;
  if (is_load) {
    if (first >= w->own && (first >> (MC_THREAD_SHIFT - MC_SECOND_SHIFT) ^ first) & MC_SECOND) {
      if (all_shared(records, n, w, !w->may_be_none)) {
        if (w->is_group && (!w->may_be_none || all_shared(records, n, w, 1))) set_shared(s, at, n, w->own_time);
        return 1;
      }
    } else if (first >= w->own) {
      if (next->per_lane && all_own(records, n, next, w, !w->may_be_none)) return 1;
    } else if (first < w->floor) {
      if (w->may_be_none && all_before(records, n, w->floor)) kind = MC_READ;
    } else if (w->is_group && all_older(records, n, w)) {
      kind = MC_READ_WRITTEN;
    }
  } else {
    const int64_t limit = w->is_group ? w->since : w->floor;
    if (first < limit ? all_before(records, n, limit) : all_own(records, n, next, w, 0)) kind = 0;
  }
  if (kind >= 0) {
    if (w->is_group) mc_forget_shared(s, at, n);
    fill(records, n, next, kind);
    return 1;
  }
  if (!next->per_lane) return 0;
  mc_four fine = all_of(-1);
  for (uint32_t i = 0; i < n; i += 4) fine &= is_fine(load_four(records + i), next_at(next, i), w, is_load);
  if (!all_negative(fine)) return 0;
  if (w->is_group) mc_forget_shared(s, at, n);
  for (uint32_t i = 0; i < n; i += 4)
    store_four(records + i, merged(load_four(records + i), next_at(next, i), w, is_load));
  return 1;
}

#endif

/* Rows of records in vector code, where nothing is to be reported. Each function returns 0 where it needs a closer look. */
#ifndef METALCORE_ROWS_H
#define METALCORE_ROWS_H

#include "blocks.h"

/* -- any mixture of records ------------------------------------------------------------------------------------------ */
/* The same thread, and no barrier since that others would have seen. */
MC_INLINE mc_four is_own(mc_four old, mc_four next, const mc_window* w) {
  return is_zero((old ^ next) & MC_THREADS) & ~is_before(old, w->own);
}

/* Read, and not in order. */
MC_INLINE mc_four is_open_read(mc_four old, const mc_window* w) {
  return ~has_bit(old, MC_WRITE) & ~is_before(old, w->own);
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

MC_INLINE mc_next next_of(int64_t base, uint32_t per_lane) {
  const int64_t step = (int64_t)MC_THREAD_STEP;
  const mc_four one = {base, base + step, base + 2 * step, base + 3 * step}, two = {base, base, base + step, base + step};
  return (mc_next){per_lane == 1 ? one : per_lane == 2 ? two : all_of(base), per_lane};
}

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

MC_INLINE void set_shared(uint64_t* blocks, uint32_t n, const mc_window* w) {
  const uint64_t word = (uint64_t)w->own | 1ull << MC_SECOND_SHIFT | MC_SHARED << MC_MASK_SHIFT | MC_READ_WRITTEN;
  for (uint32_t i = 0; i < n; i++) blocks[i] = word;
}

MC_INLINE uint32_t whole_blocks(uint64_t at, uint32_t n, uint32_t per_lane) {
  return at % MC_BLOCK || n % MC_BLOCK || per_lane > MC_BLOCK ? 0 : n / MC_BLOCK;
}

/* n records (a multiple of four) from number `at` on. The first tells which question to ask of all of them. Where they are
 * whole blocks and come to be alike, or known to be shared, their words say so. */
MC_INLINE int quick_records(mc_sanitizer* s, const mc_shadow* shadow, uint64_t at, uint32_t n, const mc_next* next,
                            const mc_words* words, const mc_window* w, int is_load) {
  uint64_t *records = shadow->records + at, *blocks = shadow->blocks + at / MC_BLOCK;
  const uint32_t n_blocks = whole_blocks(at, n, next->per_lane);
  mc_open(s, shadow, at, n);
  const int64_t first = (int64_t)records[0];
  int64_t kind = -1;
  if (is_load) {
    if (first >= w->own && (first >> (MC_THREAD_SHIFT - MC_SECOND_SHIFT) ^ first) & MC_SECOND) {
      if (all_shared(records, n, w, !w->may_be_none)) {
        if (!w->may_be_none || all_shared(records, n, w, 1)) set_shared(blocks, n_blocks, w);
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
    if (!n_blocks) fill(records, n, next, kind);
    for (uint32_t i = 0; i < n_blocks; i++) blocks[i] = (uint64_t)(words_at(words, i)[0] | kind);
    return 1;
  }
  if (!next->per_lane) return 0;
  mc_four fine = all_of(-1);
  for (uint32_t i = 0; i < n; i += 4) fine &= is_fine(load_four(records + i), next_at(next, i), w, is_load);
  if (!all_negative(fine)) return 0;
  for (uint32_t i = 0; i < n; i += 4)
    store_four(records + i, merged(load_four(records + i), next_at(next, i), w, is_load));
  return 1;
}

static __attribute__((noinline)) int look_closer(mc_sanitizer* s, const mc_shadow* shadow, uint64_t at, uint32_t n,
                                                 const mc_words* words, uint32_t per_lane, const mc_window* w, int is_load) {
  const mc_next next = next_of(words->base | MC_PATTERN, per_lane);
  return is_load ? quick_records(s, shadow, at, n, &next, words, w, 1) : quick_records(s, shadow, at, n, &next, words, w, 0);
}

/* The same by the words, where they tell. `record` is the first one that the access makes. */
MC_INLINE int quick(mc_sanitizer* s, const mc_shadow* shadow, uint64_t at, uint32_t n, int64_t record, uint32_t per_lane,
                    const mc_window* w, int is_load) {
  const mc_words words = words_of(record, per_lane);
  const uint32_t n_blocks = whole_blocks(at, n, per_lane);
  if (n_blocks && quick_blocks(shadow->blocks + at / MC_BLOCK, n_blocks, &words, w, is_load)) return 1;
  return look_closer(s, shadow, at, n, &words, per_lane, w, is_load);
}

#endif

/* Blocks of eight records that one access made alike, as one word: a row of 32 neighbours is four words. */
#ifndef METALCORE_BLOCKS_H
#define METALCORE_BLOCKS_H

#include "sanitize.h"

typedef int64_t mc_four __attribute__((vector_size(32)));
typedef int64_t mc_four_in_memory __attribute__((vector_size(32), aligned(8), may_alias));

#define MC_INLINE static inline __attribute__((always_inline))
#define MC_THREADS ((int64_t)(1023ull << MC_THREAD_SHIFT | 1023ull << MC_SECOND_SHIFT))
#define MC_SECOND (1023ll << MC_SECOND_SHIFT)
#define MC_PATTERN (15ll << MC_MASK_SHIFT)

MC_INLINE mc_four load_four(const uint64_t* p) { return *(const mc_four_in_memory*)p; }
MC_INLINE void store_four(uint64_t* p, mc_four v) { *(mc_four_in_memory*)p = v; }
MC_INLINE mc_four all_of(int64_t x) { return (mc_four){x, x, x, x}; }

/* A truth is the sign of a number: compares of vectors take more instructions to combine. No record has a sign. */
#ifdef __AVX__
MC_INLINE int all_negative(mc_four v) { return __builtin_ia32_movmskpd256((__attribute__((vector_size(32))) double)v) == 15; }
MC_INLINE int any_negative(mc_four v) { return __builtin_ia32_movmskpd256((__attribute__((vector_size(32))) double)v) != 0; }
#else
MC_INLINE int all_negative(mc_four v) { return __builtin_reduce_and(v) < 0; }
MC_INLINE int any_negative(mc_four v) { return __builtin_reduce_or(v) < 0; }
#endif
MC_INLINE mc_four is_before(mc_four old, int64_t limit) { return old - limit; }
MC_INLINE mc_four has_bit(mc_four old, int64_t bit) { return old << (63 - __builtin_ctzll((uint64_t)bit)); }
MC_INLINE mc_four is_zero(mc_four bits) { return bits - 1; }
MC_INLINE mc_four choose(mc_four truth, mc_four yes, mc_four no) {
  const mc_four mask = truth < 0;
  return (mask & yes) | (~mask & no);
}

typedef struct mc_window {
  int64_t floor, start, since; /* as in mc_limits */
  int64_t own;                 /* records from here on are not in order with this simdgroup */
  int is_group;                /* threadgroup memory: floor is start */
  int may_be_none;             /* whether an access may be the first of its granule */
} mc_window;

/* From here on records are not in order with this thread's simdgroup. */
MC_INLINE int64_t own_limit(const mc_sanitizer* s, const mc_shadow* shadow, uint32_t thread) {
  const int64_t own = (int64_t)s->own_since[thread / MC_LANES][shadow->space] << MC_TIME_SHIFT;
  const int64_t since = s->limits[shadow->space].since;
  return own > since ? own : since;
}

MC_INLINE mc_window window(const mc_sanitizer* s, const mc_shadow* shadow, uint32_t thread, int needs_value) {
  const mc_limits* limits = &s->limits[shadow->space];
  return (mc_window){limits->floor, limits->start, limits->since, own_limit(s, shadow, thread),
                     shadow->space == MC_GROUP_SPACE, !(needs_value && shadow->is_set_first)};
}

MC_INLINE mc_window window_of(const mc_sanitizer* s, const mc_touch* t) {
  return window(s, t->shadow, t->thread, t->needs_value && t->access == MC_LOAD);
}

MC_INLINE mc_four has_one_thread(mc_four old) {
  return is_zero((old >> (MC_THREAD_SHIFT - MC_SECOND_SHIFT) ^ old) & MC_SECOND);
}

/* Read since the last barrier by two threads: what a further read leaves as it is. No word of MC_MIXED is. */
MC_INLINE mc_four is_shared(mc_four old, const mc_window* w) {
  return ~is_before(old, w->own) & ~has_bit(old, MC_WRITE) & ~has_one_thread(old);
}

/* Four words, and what they are after an access whose pattern and threads are those of `next`. Returns 0 where the
 * records tell more, or one of them is to be reported. */
MC_INLINE int touch_blocks(mc_four old, mc_four next, const mc_window* w, int is_load, int is_place, mc_four* after) {
  const mc_four none = is_before(old, w->floor), open = ~is_before(old, w->own);
  const mc_four same = is_zero((old ^ next) & (MC_THREADS | MC_PATTERN)) & open;
  const mc_four older = ~is_before(old, w->start) & is_before(old, w->since);
  const mc_four mixed = is_zero(old & MC_PATTERN); /* its time is the latest: the others' may be another threadgroup's */
  if (!is_load) {
    *after = next;
    return all_negative(none | same | (w->is_group ? older : older & ~mixed));
  }
  const mc_four shared = is_shared(old, w);
  const mc_four kept = is_place ? shared : shared | same;
  mc_four joins = all_of(0);
  if (!is_place)
    joins = open & ~has_bit(old, MC_WRITE) & has_one_thread(old) & ~same & is_zero((old ^ next) & MC_PATTERN);
  const mc_four known = kept | joins | (older & ~mixed);
  const mc_four value = choose(none, all_of(0), old & MC_HAS_VALUE);
  *after = choose(kept, old, choose(joins, (old & ~MC_SECOND) | (next & MC_SECOND), next | MC_READ | value));
  return all_negative(w->may_be_none ? known | none : known & has_bit(old, MC_HAS_VALUE));
}

/* Which words an access of many records makes: the n-th stands for `lanes` threads more than the one before. */
typedef struct mc_words {
  int64_t base;
  uint32_t lanes;
  int is_place;
} mc_words;

/* A lane has so many records; 0: one place after the other, each read by the same two lanes. */
MC_INLINE mc_words words_of(int64_t record, uint32_t per_lane) {
  const int64_t pattern = per_lane == 1 ? MC_ROW : per_lane == 2 ? MC_PAIRS : per_lane == 4 ? MC_QUARTERS : MC_ALIKE;
  return (mc_words){(record & ~MC_PATTERN) | pattern << MC_MASK_SHIFT, per_lane ? MC_BLOCK >> __builtin_ctz(per_lane) : 0, !per_lane};
}

MC_INLINE mc_four words_at(const mc_words* words, uint32_t i) {
  const int64_t step = (int64_t)MC_THREAD_STEP * words->lanes, base = words->base + step * i;
  return (mc_four){base, base + step, base + 2 * step, base + 3 * step};
}

/* Whether further reads of so many blocks, a multiple of four, change nothing. */
MC_INLINE int all_shared_blocks(const uint64_t* blocks, uint32_t n, const mc_window* w) {
  mc_four early = all_of(0), bits = early, alone = early, value = all_of(-1);
  for (uint32_t i = 0; i < n; i += 4) {
    const mc_four old = load_four(blocks + i);
    early |= is_before(old, w->own);
    bits |= old;
    value &= old;
    alone |= has_one_thread(old);
  }
  return !any_negative(early | alone | has_bit(bits, MC_WRITE)) && (w->may_be_none || all_negative(has_bit(value, MC_HAS_VALUE)));
}

/* So many whole blocks. What was done before a word that needs a closer look is done again then, which changes nothing. */
MC_INLINE int quick_blocks(uint64_t* blocks, uint32_t n, const mc_words* words, const mc_window* w, int is_load) {
  mc_four after;
  uint32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    if (!touch_blocks(load_four(blocks + i), words_at(words, i), w, is_load, words->is_place, &after)) return 0;
    store_four(blocks + i, after);
  }
  for (; i < n; i++) {
    if (!touch_blocks(all_of((int64_t)blocks[i]), all_of(words_at(words, i)[0]), w, is_load, words->is_place, &after)) return 0;
    blocks[i] = (uint64_t)after[0];
  }
  return 1;
}

#endif

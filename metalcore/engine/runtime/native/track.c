/* Hooks of accesses: 32 lanes at a time in vector code where nothing is to be reported, else lane by lane. */
#include "rows.h"

static inline mc_shadow* shadow_of(mc_sanitizer* s, uint32_t root, uintptr_t address) {
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

/* Lanes side by side. */
static int quick_row(mc_sanitizer* s, const mc_touch* t, uint32_t lanes) {
  const uint32_t per_lane = t->size >> t->shadow->shift;
  if (lanes * per_lane % 4) return 0;
  const mc_window w = window_of(s, t);
  const uint64_t at = (t->address - t->shadow->lo) >> t->shadow->shift;
  const int is_load = t->access == MC_LOAD;
  const int64_t record = (int64_t)mc_record(s->time, t->thread, t->thread, t->site, 15, is_load ? 0 : MC_WRITTEN);
  return is_load ? quick(s, t->shadow, at, lanes * per_lane, record, per_lane, &w, 1)
                 : quick(s, t->shadow, at, lanes * per_lane, record, per_lane, &w, 0);
}

/* Whether the bytes are watched by these records, each by whole ones; a lane's make a power of two. */
MC_INLINE int is_whole(const mc_shadow* shadow, uintptr_t address, uint64_t bytes, uint32_t size) {
  const uint32_t granule = 1u << shadow->shift;
  return address >= shadow->lo && address < shadow->hi && shadow->hi - address >= bytes && size >= granule &&
         !(size & (size - 1)) && !((address - shadow->lo) & (granule - 1));
}

/* One place that all lanes read: two of them stand for all. Returns 0 where it needs a closer look. */
static int quick_place(mc_sanitizer* s, const mc_touch* t, uint32_t lanes) {
  const mc_shadow* shadow = t->shadow;
  if (t->address < shadow->lo || t->address >= shadow->hi || t->size != 1u << shadow->shift) return 0;
  const uint64_t index = (t->address - shadow->lo) >> shadow->shift;
  const mc_window w = window_of(s, t);
  const mc_four word = all_of((int64_t)shadow->blocks[index / MC_BLOCK]);
  if (is_shared(word, &w)[0] < 0 && (w.may_be_none || word[0] & MC_HAS_VALUE)) return 1;
  mc_open(s, shadow, index, 1);
  uint64_t *record = &shadow->records[index], old = *record;
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

/* Places side by side, each read by all lanes. */
static int quick_places(mc_sanitizer* s, const mc_touch* t, uint32_t n) {
  const mc_window w = window_of(s, t);
  const int64_t base = (int64_t)mc_record(s->time, t->thread, t->thread + MC_LANES - 1, t->site, 15, 0);
  return quick(s, t->shadow, (t->address - t->shadow->lo) >> t->shadow->shift, n, base, 0, &w, 1);
}

MC_INLINE mc_touch touch_of(mc_sanitizer* s, uint32_t meta, uintptr_t address, uint32_t size) {
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
  if (is_block && stride == (int64_t)size && t.access != MC_ATOMIC && is_whole(shadow, base, n * (uint64_t)size, size) &&
      quick_row(s, &t, n))
    return 0;
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

/* The words of a row, where it is whole blocks, a record for each lane; else none. */
MC_INLINE uint64_t* blocks_of_row(const mc_sanitizer* s, const mc_shadow* shadow, uintptr_t base, uint32_t size) {
  const uint64_t offset = base - shadow->lo;
  const int is_plain = size == 1u << shadow->shift && !(offset & (MC_BLOCK * size - 1)) && offset < shadow->rows_end;
  return is_plain && !s->n_pending ? shadow->blocks + (offset >> shadow->shift) / MC_BLOCK : 0;
}

/* What the lanes of a row make of its words. */
MC_INLINE mc_four row_words(const mc_sanitizer* s, uint32_t meta, uint32_t first_thread, int64_t kind) {
  const int64_t step = (int64_t)MC_THREAD_STEP * MC_BLOCK;
  const mc_four steps = {0, step, 2 * step, 3 * step};
  return (int64_t)mc_record(s->time, first_thread, first_thread, meta & 0xffff, MC_ROW, (uint32_t)kind) + steps;
}

/* The common cases of rows, with as few instructions as they take. */
uint32_t mc_read_row(mc_sanitizer* s, uintptr_t base, uint32_t size, uint32_t meta, uint32_t first_thread) {
  const mc_shadow* shadow = s->roots[meta >> 24];
  uint64_t* blocks = blocks_of_row(s, shadow, base, size);
  if (blocks) {
    const mc_window w = window(s, shadow, first_thread, !(meta & MC_META_NEEDS_NO_VALUE));
    mc_four after;
    if (touch_blocks(load_four(blocks), row_words(s, meta, first_thread, 0), &w, 1, 0, &after)) {
      store_four(blocks, after);
      return 0;
    }
  }
  return mc_track_row(s, base, size, size, meta, ~0u, first_thread);
}

uint32_t mc_write_row(mc_sanitizer* s, uintptr_t base, uint32_t size, uint32_t meta, uint32_t first_thread) {
  const mc_shadow* shadow = s->roots[meta >> 24];
  uint64_t* blocks = blocks_of_row(s, shadow, base, size);
  if (blocks) {
    const mc_four old = load_four(blocks), next = row_words(s, meta, first_thread, MC_WRITTEN);
    const mc_four same = is_zero((old ^ next) & (MC_THREADS | MC_PATTERN)) & ~is_before(old, own_limit(s, shadow, first_thread));
    if (all_negative(is_before(old, s->limits[shadow->space].replaced) | same)) {
      store_four(blocks, next);
      return 0;
    }
  }
  return mc_track_row(s, base, size, size, meta, ~0u, first_thread);
}

/* The reads of all rounds of a loop in which no barrier stands and nothing of this memory is written. Returns 0 where one
 * of them needs a closer look: those before it are then recorded twice, which changes nothing. */
static int quick_loop(mc_sanitizer* s, mc_touch* t, int64_t stride, int64_t ahead, uint32_t rounds) {
  const mc_shadow* shadow = t->shadow;
  const uint32_t granule = 1u << shadow->shift, size = t->size;
  const uint64_t bytes = stride ? MC_LANES * (uint64_t)size : size;
  const uintptr_t last = t->address + (uintptr_t)(ahead * (int64_t)(rounds - 1));
  if (ahead & (granule - 1) || (ahead < 0 ? last > t->address : last < t->address)) return 0;
  if (!is_whole(shadow, t->address, bytes, size) || !is_whole(shadow, last, bytes, size)) return 0;
  if (stride && stride != (int64_t)size) return 0;
  if (!stride && ahead == granule && size == granule && rounds >= 4) {
    const uint32_t n = rounds & ~3u;
    if (quick_places(s, t, n)) {
      rounds -= n;
      t->address += n * (uintptr_t)granule;
    }
  }
  if (stride && ahead == (int64_t)bytes) {
    const mc_window w = window_of(s, t);
    const uint64_t at = (t->address - shadow->lo) >> shadow->shift;
    const uint32_t n_blocks = MC_LANES / MC_BLOCK * (size >> shadow->shift) * rounds;
    if (at % MC_BLOCK == 0 && all_shared_blocks(shadow->blocks + at / MC_BLOCK, n_blocks, &w)) return 1;
  }
  for (; rounds; rounds--, t->address += (uintptr_t)ahead)
    if (!(stride ? quick_row(s, t, MC_LANES) : quick_place(s, t, ~0u))) return 0;
  return 1;
}

uint64_t mc_track_loop(mc_sanitizer* s, uintptr_t base, int64_t stride, uint32_t size, uint32_t meta,
                         uint32_t first_thread, int64_t ahead, uint32_t rounds) {
  if (s->n_pending) mc_settle(s);
  if (rounds > 1) {
    mc_touch t = touch_of(s, meta, base, size);
    t.thread = first_thread;
    if (t.shadow && quick_loop(s, &t, stride, ahead, rounds)) return MC_ALL_ROUNDS;
  }
  return mc_track_row(s, base, stride, size, meta, ~0u, first_thread);
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
#define MC_HOLDER(row, column) (((row) & 4) << 2 | ((column) & 4) << 1 | ((row) & 3) << 1 | ((column) >> 1 & 1))
#define MC_LINE(row) \
  {MC_HOLDER(row, 0), MC_HOLDER(row, 1), MC_HOLDER(row, 2), MC_HOLDER(row, 3), \
   MC_HOLDER(row, 4), MC_HOLDER(row, 5), MC_HOLDER(row, 6), MC_HOLDER(row, 7)}
#define MC_COLUMN(column) \
  {MC_HOLDER(0, column), MC_HOLDER(1, column), MC_HOLDER(2, column), MC_HOLDER(3, column), \
   MC_HOLDER(4, column), MC_HOLDER(5, column), MC_HOLDER(6, column), MC_HOLDER(7, column)}

static const int64_t holders[2][8][8] = {
    {MC_LINE(0), MC_LINE(1), MC_LINE(2), MC_LINE(3), MC_LINE(4), MC_LINE(5), MC_LINE(6), MC_LINE(7)},
    {MC_COLUMN(0), MC_COLUMN(1), MC_COLUMN(2), MC_COLUMN(3), MC_COLUMN(4), MC_COLUMN(5), MC_COLUMN(6), MC_COLUMN(7)}};

/* Eight records side by side. */
MC_INLINE int quick_line(mc_sanitizer* s, const mc_shadow* shadow, uint64_t at, const int64_t* holder, int64_t base,
                         const mc_window* w, int is_load) {
  uint64_t* records = shadow->records + at;
  mc_four next[2], old[2], fine = all_of(-1);
  mc_open(s, shadow, at, MC_BLOCK);
  for (uint32_t half = 0; half < 2; half++) {
    old[half] = load_four(records + 4 * half);
    next[half] = base + (int64_t)MC_THREAD_STEP * load_four((const uint64_t*)holder + 4 * half);
    fine &= is_fine(old[half], next[half], w, is_load);
  }
  if (!all_negative(fine)) return 0;
  for (uint32_t half = 0; half < 2; half++) store_four(records + 4 * half, merged(old[half], next[half], w, is_load));
  if (is_load && at % MC_BLOCK == 0 && all_shared(records, MC_BLOCK, w, 1))
    set_shared(shadow->blocks + at / MC_BLOCK, 1, w);
  return 1;
}

/* Whole blocks, `apart` from line to line. The first lines of both halves are held by lanes 0, 2, 4, 6 and these plus 16;
 * columns by 0, 0, 1, 1 and these plus 8. */
MC_INLINE int quick_matrix(const mc_shadow* shadow, uint64_t at, int64_t apart, const int64_t (*holder)[8], int64_t word,
                           const mc_window* w, int is_load) {
  uint64_t* blocks = shadow->blocks + at / MC_BLOCK;
  for (uint32_t line = 0; line < 8; line += 4) {
    mc_four old, next, after;
    for (uint32_t i = 0; i < 4; i++) {
      old[i] = (int64_t)blocks[apart * (line + i)];
      next[i] = word + (int64_t)MC_THREAD_STEP * holder[line + i][0];
    }
    if (!touch_blocks(old, next, w, is_load, 0, &after)) return 0;
    for (uint32_t i = 0; i < 4; i++) blocks[apart * (line + i)] = (uint64_t)after[i];
  }
  return 1;
}

void mc_track_matrix(mc_sanitizer* s, uintptr_t base, int64_t stride, uint32_t size, uint32_t transposed, uint32_t meta,
                     uint32_t first_thread) {
  if (s->n_pending) mc_settle(s);
  mc_touch t = touch_of(s, meta, base, size);
  const mc_shadow* shadow = t.shadow;
  if (!shadow) return;
  t.thread = first_thread;
  const mc_window w = window_of(s, &t);
  const int is_load = t.access == MC_LOAD, is_exact = size == 1u << shadow->shift;
  const int64_t first = (int64_t)mc_record(s->time, first_thread, first_thread, t.site, 15, is_load ? 0 : MC_WRITTEN);
  const uint64_t index = (base - shadow->lo) >> shadow->shift;
  if (is_exact && stride > 0 && (uint64_t)stride < shadow->hi - shadow->lo && !(stride % (MC_BLOCK * (int64_t)size)) && !(index % MC_BLOCK) &&
      is_whole(shadow, base, 7 * (uint64_t)stride + 8 * size, size)) {
    const int64_t pattern = transposed ? MC_COLUMN : MC_LINE, word = (first & ~MC_PATTERN) | pattern << MC_MASK_SHIFT;
    const int64_t apart = stride / (MC_BLOCK * (int64_t)size);
    if (is_load ? quick_matrix(shadow, index, apart, holders[transposed], word, &w, 1)
                : quick_matrix(shadow, index, apart, holders[transposed], word, &w, 0))
      return;
  }
  for (uint32_t line = 0; line < 8; line++) {
    const uintptr_t at = base + (uintptr_t)(stride * line);
    const int64_t* holder = holders[transposed][line];
    if (is_whole(shadow, at, 8 * size, size) && is_exact) {
      const uint64_t number = (at - shadow->lo) >> shadow->shift;
      if (is_load ? quick_line(s, shadow, number, holder, first, &w, 1) : quick_line(s, shadow, number, holder, first, &w, 0))
        continue;
    }
    for (uint32_t i = 0; i < 8; i++) touch_lane(s, &t, at + (uintptr_t)i * size, first_thread + (uint32_t)holder[i]);
  }
}

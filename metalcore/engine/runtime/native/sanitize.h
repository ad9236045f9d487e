/* Sanitize mode: shadow records of memory, barrier intervals, events. A launch in this mode runs on one thread. */
#ifndef METALCORE_SANITIZE_H
#define METALCORE_SANITIZE_H

#include "runtime.h"

#define MC_SIMDGROUPS 32   /* most that a threadgroup of 1,024 threads has */
#define MC_GROUP_ROOT 31   /* "root" of threadgroup memory; 0 to 30 are buffers */
#define MC_ANY_ROOT 32     /* a pointer that may lead anywhere: the address decides */
#define MC_NO_SITE 1023    /* a record has ten bits for a site */
#define MC_EVENTS 512
#define MC_BLOCK 8           /* records that have a word together */
#define MC_ALL_ROUNDS (1ull << 32) /* an answer: all rounds of the loop are recorded */

enum mc_event_kind {
  MC_OUT_OF_BOUNDS = 0,
  MC_RACE,
  MC_RACE_BETWEEN_GROUPS,
  MC_SAME_VALUE_RACE,
  MC_SIMDGROUP_RACE,
  MC_WRONG_FENCE,
  MC_BARRIER_DIVERGENCE,
  MC_UNINITIALISED_GROUP_MEMORY,
  MC_UNINITIALISED_OUTPUT,
  MC_UNWRITTEN_OUTPUT,
  MC_INACTIVE_LANE,
};

enum { MC_DEVICE_SPACE = 0, MC_GROUP_SPACE = 1, MC_SPACES = 2 };

/* One finding: the first of its kind at a pair of sites, and how many there were. layout.py mirrors it. */
typedef struct mc_event {
  uint64_t count;
  uint64_t address; /* of the access; an offset where root is MC_GROUP_ROOT */
  uint64_t other_address; /* out of bounds: lo of the memory */
  uint64_t size;          /* out of bounds: bytes of the memory; unwritten: elements */
  uint32_t kind, site, other_site, root;
  uint32_t access, other_access; /* enum mc_access_kind */
  uint32_t thread, other_thread; /* indices in the threadgroup */
  uint32_t group[3], other_group[3];
} mc_event;
_Static_assert(sizeof(mc_event) == 88, "mc_event");

/* What Python asks for and gets back. layout.py mirrors it. */
typedef struct mc_options {
  uint64_t seed;
  uint32_t is_shuffled; /* run simdgroups and threadgroups in the order of the seed */
  uint32_t fresh;       /* bit i: nobody has written [[buffer(i)]] before this launch */
  uint32_t unwritten;   /* look for parts of fresh buffers that are never written */
  uint32_t n_events;
  uint64_t lost;        /* events for which there was no room */
  uint64_t shadow_bytes;
  uint8_t granule[MC_BUFFERS + 1]; /* log2 of the smallest access of each root */
  mc_event events[MC_EVENTS];
} mc_options;
MC_AT(mc_options, granule, 40);
MC_AT(mc_options, events, 72);

/* A piece of memory that is watched: one record for each granule. */
typedef struct mc_shadow {
  uintptr_t lo, hi;
  uint64_t* records;
  uint64_t* blocks; /* a word for each MC_BLOCK records */
  uint32_t shift; /* log2 of the granule */
  uint32_t space;
  uint32_t root;
  uint32_t is_fresh;
  uint32_t is_set_first; /* what a read finds has to be written before, and whether it was is known */
  uint64_t rows_end;     /* a row of all lanes, a record each, fits in at offsets below this */
  uint64_t bytes; /* of the records, as mapped */
} mc_shadow;

/* The times that decide, where a record has its time: set_limits in rounds.c. */
typedef struct mc_limits {
  int64_t floor, start, since; /* records below floor count as none; [start, since) are in order */
  int64_t replaced;            /* what is below is of no interest to a write */
} mc_limits;

/* An access that wrote where another thread had: whether the values differ shows when the store is done. */
typedef struct mc_pending {
  mc_event event;
  uintptr_t address;
  uint32_t size;
  uint8_t before[64];
} mc_pending;

struct mc_sanitizer {
  mc_shadow* roots[MC_ANY_ROOT + 1]; /* first: kernels test these; null: not watched */
  uint32_t order[MC_SIMDGROUPS];     /* kernels run simdgroups in this order */
  /* The first two return the lanes that read what has no value, where meta asks for it. */
  uint32_t (*row)(mc_sanitizer*, uintptr_t base, int64_t stride, uint32_t size, uint32_t meta, uint32_t lanes,
                  uint32_t first_thread);
  uint32_t (*lanes)(mc_sanitizer*, const uintptr_t* addresses, const uint64_t* values, uint32_t size, uint32_t meta,
                    uint32_t lanes, uint32_t first_thread);
  void (*matrix)(mc_sanitizer*, uintptr_t base, int64_t stride, uint32_t size, uint32_t transposed, uint32_t meta,
                 uint32_t first_thread);
  void (*barrier)(mc_sanitizer*, uint32_t site, uint32_t flags, uint32_t lanes, uint32_t simdgroup);
  void (*simdgroup_barrier)(mc_sanitizer*, uint32_t site, uint32_t flags, uint32_t lanes, uint32_t simdgroup);
  void (*fence)(mc_sanitizer*, uint32_t flags, uint32_t scope);
  void (*begin_group)(mc_sanitizer*, const mc_worker*, uint32_t threads);
  void (*end_simdgroup)(mc_sanitizer*, uint32_t simdgroup);
  void (*shuffle)(mc_sanitizer*, uint32_t site, const uint32_t* sources, uint32_t lanes, uint32_t first_thread);
  void (*unset)(mc_sanitizer*, uint32_t place, uint32_t lanes, uint32_t first_thread);
  void (*set_memory)(mc_sanitizer*, uintptr_t address, uint64_t size);
  /* All lanes read a row, or a place, in each of so many rounds of a loop. Returns MC_ALL_ROUNDS, or what row does. */
  uint64_t (*loop)(mc_sanitizer*, uintptr_t base, int64_t stride, uint32_t size, uint32_t meta, uint32_t first_thread,
                     int64_t ahead, uint32_t rounds);
  /* All lanes, side by side, in memory that is watched and known by its root: as row. */
  uint32_t (*read_row)(mc_sanitizer*, uintptr_t base, uint32_t size, uint32_t meta, uint32_t first_thread);
  uint32_t (*write_row)(mc_sanitizer*, uintptr_t base, uint32_t size, uint32_t meta, uint32_t first_thread);
  /* For the runtime. */
  uint64_t (*nth_group)(const mc_sanitizer*, uint64_t n);
  void (*out_of_bounds)(mc_sanitizer*, const mc_access*, uint32_t lane, uint32_t refusal, const char* lo, const char* hi);

  mc_launch* launch;
  const mc_worker* worker;
  mc_options* options;
  mc_shadow shadows[MC_BUFFERS + 1];
  uint32_t n_shadows;
  uint64_t random;

  /* Time counts barrier intervals: of the launch at group starts and barriers, of a simdgroup at its own barriers. */
  uint32_t time, launch_start, group_start;
  uint32_t since[MC_SPACES]; /* start of the first interval behind the last barrier that orders this memory */
  uint32_t since_any;        /* the same for barriers of whatever flags */
  uint32_t own_since[MC_SIMDGROUPS][MC_SPACES], own_since_any[MC_SIMDGROUPS];
  mc_limits limits[MC_SPACES];
  uint32_t since_fence; /* last fence of device scope */
  uint32_t* group_times; /* when the n-th threadgroup of this launch began */
  uint64_t groups_begun, group_times_bytes;
  uint64_t lost_history; /* groups_begun when the records were last wiped */
  uint32_t has_forgotten; /* they were, in this launch: what has a value is not known any more */

  uint32_t n_simdgroups, n_threads;
  uint32_t n_arrived, n_ended;
  uint32_t round_site, round_flags, round_simdgroup, last_ended;

  /* The last read of threadgroup memory without a value, of each thread: reported when the value matters. */
  mc_event unset_reads[MC_SIMDGROUPS * MC_LANES];
  uint32_t any_unset;

  mc_pending pending[2 * MC_LANES]; /* a matrix has so many elements */
  uint32_t n_pending;
};
MC_AT(mc_sanitizer, order, 264);
MC_AT(mc_sanitizer, row, 392);
MC_AT(mc_sanitizer, set_memory, 472);
MC_AT(mc_sanitizer, loop, 480);

/* What is accessed, and how: site, access, flags, root. */
enum {
  MC_META_NEEDS_NO_VALUE = 1 << 20, /* an atomic store, or the read of a struct that is copied whole */
  MC_META_ASKS = 1 << 21,           /* a read that returns the lanes without a value, instead of reporting them */
  MC_META_LOSES = 1 << 22,          /* what was stored has no value itself */
  MC_META_ONLY_READS = 1 << 23,     /* an atomic load */
};

/* A record: who touched a granule last. Bit 63 stays 0, so that records compare as signed numbers.
 * A reader has a second thread where several read; any writer differs from one of the two. */
enum {
  MC_READ = 1,      /* the last access was a read */
  MC_HAS_VALUE = 2, /* it was written in this launch, or threadgroup */
  MC_WRITE = 4,     /* the last access was a write */
  MC_ATOMICALLY = 8,
  MC_READ_WRITTEN = MC_READ | MC_HAS_VALUE,
  MC_WRITTEN = MC_WRITE | MC_HAS_VALUE,
  MC_TOUCHED_ATOMICALLY = MC_ATOMICALLY | MC_WRITE | MC_HAS_VALUE,
};
#define MC_TIME_SHIFT 38
#define MC_THREAD_SHIFT 28
#define MC_SECOND_SHIFT 18
#define MC_SITE_SHIFT 8
#define MC_MASK_SHIFT 4
#define MC_LAST_TIME ((1u << 25) - 1)
#define MC_THREAD_STEP ((1ull << MC_THREAD_SHIFT) | (1ull << MC_SECOND_SHIFT))

static inline uint32_t mc_time_of(uint64_t record) { return (uint32_t)(record >> MC_TIME_SHIFT); }
static inline uint32_t mc_thread_of(uint64_t record) { return record >> MC_THREAD_SHIFT & 1023; }
static inline uint32_t mc_second_of(uint64_t record) { return record >> MC_SECOND_SHIFT & 1023; }
static inline uint32_t mc_site_of(uint64_t record) { return record >> MC_SITE_SHIFT & 1023; }
static inline uint32_t mc_mask_of(uint64_t record) { return record >> MC_MASK_SHIFT & 15; }
static inline uint32_t mc_kind_of(uint64_t record) { return record & 15; }

static inline uint64_t mc_record(uint32_t time, uint32_t thread, uint32_t second, uint32_t site, uint32_t mask,
                                 uint32_t kind) {
  if (site > MC_NO_SITE) site = MC_NO_SITE;
  return (uint64_t)time << MC_TIME_SHIFT | (uint64_t)thread << MC_THREAD_SHIFT | (uint64_t)second << MC_SECOND_SHIFT |
         (uint64_t)site << MC_SITE_SHIFT | (uint64_t)mask << MC_MASK_SHIFT | kind;
}

/* The word of a block: a record whose quarters are a pattern, which says how the block's eight records follow from it:
 * by the threads that each of them has more than the first. Its time is that of the latest of them, or later. */
enum mc_pattern {
  MC_MIXED = 0, /* the records tell, and the word has nothing but a time */
  MC_ROW,       /* a thread each */
  MC_PAIRS,     /* two records a thread */
  MC_QUARTERS,  /* four */
  MC_ALIKE,     /* all of one thread, or of the same two */
  MC_LINE,      /* of a matrix that lanes hold */
  MC_COLUMN,
  MC_SHARED,    /* the records tell; each has a value, and two threads have read it since the word's time */
};

/* touch.c */
void mc_write_records(uint64_t* records, uint64_t word);

/* From now on the records tell. Every record that is read or written alone goes through this. */
static inline void mc_open(const mc_sanitizer* s, const mc_shadow* shadow, uint64_t at, uint64_t n) {
  const uint32_t floor = shadow->space == MC_GROUP_SPACE ? s->group_start : s->launch_start; /* older ones count as none */
  for (uint64_t block = at / MC_BLOCK; block <= (at + n - 1) / MC_BLOCK; block++) {
    uint64_t* word = &shadow->blocks[block];
    if (mc_time_of(*word) >= floor && mc_mask_of(*word) % MC_SHARED) mc_write_records(shadow->records + block * MC_BLOCK, *word);
    *word = (uint64_t)s->time << MC_TIME_SHIFT;
  }
}

static inline void mc_set_rows_end(mc_shadow* shadow) {
  const uint64_t room = shadow->hi - shadow->lo, row = (uint64_t)MC_LANES << shadow->shift;
  shadow->rows_end = room >= row ? room - row + 1 : 0;
}

/* One thread's access. */
typedef struct mc_touch {
  mc_shadow* shadow;
  uint32_t access, site, thread, size;
  uint32_t needs_value; /* it reads what is there */
  uint32_t meta;
  uint32_t is_unset; /* set where what it reads has no value */
  uintptr_t address;
} mc_touch;

/* touch.c */
int mc_touch_all(mc_sanitizer*, mc_touch*, mc_event* found); /* 1 where two accesses conflict */
void mc_at_use_of_unset(mc_sanitizer*, uint32_t, uint32_t, uint32_t);

/* events.c */
void mc_event_add(mc_sanitizer*, const mc_event*);
void mc_event_group(const mc_sanitizer*, uint32_t time, uint32_t group[3]);
uint64_t mc_nth_group(const mc_sanitizer*, uint64_t n);
void mc_out_of_bounds(mc_sanitizer*, const mc_access*, uint32_t lane, uint32_t refusal, const char* lo, const char* hi);
void mc_settle(mc_sanitizer*);

/* track.c */
uint32_t mc_track_row(mc_sanitizer*, uintptr_t, int64_t, uint32_t, uint32_t, uint32_t, uint32_t);
uint32_t mc_track_lanes(mc_sanitizer*, const uintptr_t*, const uint64_t*, uint32_t, uint32_t, uint32_t, uint32_t);
void mc_track_matrix(mc_sanitizer*, uintptr_t, int64_t, uint32_t, uint32_t, uint32_t, uint32_t);
uint32_t mc_read_row(mc_sanitizer*, uintptr_t, uint32_t, uint32_t, uint32_t);
uint32_t mc_write_row(mc_sanitizer*, uintptr_t, uint32_t, uint32_t, uint32_t);
uint64_t mc_track_loop(mc_sanitizer*, uintptr_t, int64_t, uint32_t, uint32_t, uint32_t, int64_t, uint32_t);

/* rounds.c */
void mc_at_barrier(mc_sanitizer*, uint32_t, uint32_t, uint32_t, uint32_t);
void mc_at_simdgroup_barrier(mc_sanitizer*, uint32_t, uint32_t, uint32_t, uint32_t);
void mc_at_fence(mc_sanitizer*, uint32_t, uint32_t);
void mc_begin_group(mc_sanitizer*, const mc_worker*, uint32_t);
void mc_at_set_memory(mc_sanitizer*, uintptr_t, uint64_t);
void mc_end_simdgroup(mc_sanitizer*, uint32_t);
void mc_at_shuffle(mc_sanitizer*, uint32_t, const uint32_t*, uint32_t, uint32_t);
uint64_t mc_random(mc_sanitizer*);

/* sanitize.c */
void mc_wipe_shadows(void);

#endif

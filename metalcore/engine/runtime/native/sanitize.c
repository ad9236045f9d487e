/* A launch in sanitize mode: shadows for the memory that it writes, then the usual run on one thread. */
#include "sanitize.h"

#define MC_FINE_BYTES (16u << 20) /* records of single bytes and halves may take this much, or twice the buffers */

static mc_services runtime;

MC_EXPORT void mc_set_services(const mc_services* services) { runtime = *services; }

typedef struct mc_range {
  uintptr_t lo, hi;
  uint32_t slots; /* bit i: [[buffer(i)]] lies in it */
} mc_range;

/* Buffers that the kernel writes or should write, and those that overlap them: an array may be bound twice. */
static uint32_t written_ranges(const mc_sanitizer* s, const mc_plan* plan, const mc_launch* launch, mc_range* ranges) {
  uint32_t n = 0, taken = 0;
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    if (!((plan->written | s->options->fresh) >> i & 1) || !launch->buffers[i] || !launch->sizes[i]) continue;
    uintptr_t lo = (uintptr_t)launch->buffers[i];
    ranges[n++] = (mc_range){lo, lo + launch->sizes[i], 1u << i};
    taken |= 1u << i;
  }
  for (int changed = 1; changed;) {
    changed = 0;
    for (uint32_t r = 0; r < n; r++) {
      for (uint32_t i = 0; i < plan->n_slots; i++) {
        uintptr_t lo = (uintptr_t)launch->buffers[i], hi = lo + launch->sizes[i];
        if (taken >> i & 1 || !lo || lo >= ranges[r].hi || hi <= ranges[r].lo) continue;
        if (lo < ranges[r].lo) ranges[r].lo = lo;
        if (hi > ranges[r].hi) ranges[r].hi = hi;
        ranges[r].slots |= 1u << i;
        taken |= 1u << i;
        changed = 1;
      }
      for (uint32_t q = r + 1; q < n; q++) {
        if (ranges[q].lo >= ranges[r].hi || ranges[q].hi <= ranges[r].lo) continue;
        if (ranges[q].lo < ranges[r].lo) ranges[r].lo = ranges[q].lo;
        if (ranges[q].hi > ranges[r].hi) ranges[r].hi = ranges[q].hi;
        ranges[r].slots |= ranges[q].slots;
        ranges[q--] = ranges[--n];
        changed = 1;
      }
    }
  }
  return n;
}

/* Records outlive their launch: older times count as none, so nothing need be cleared. One launch at a time uses them. */
static struct {
  uint64_t* records[MC_BUFFERS + 1];
  uint64_t bytes[MC_BUFFERS + 1];
  uint32_t* group_times;
  uint64_t group_times_bytes;
  mc_sanitizer* sanitizer;
  uint32_t time;
} kept;

/* In a child process a launch of another thread is no longer under way. Its memory stays: it may be this thread's, too,
 * where a handler of a signal has forked. */
MC_EXPORT void mc_sanitize_after_fork(void) { memset(&kept, 0, sizeof kept); }

void mc_wipe_shadows(void) {
  for (uint32_t i = 0; i <= MC_BUFFERS; i++)
    if (kept.records[i]) memset(kept.records[i], 0, kept.bytes[i]);
}

static uint64_t* keep_records(uint32_t i, uint64_t bytes) {
  if (kept.bytes[i] >= bytes && kept.bytes[i] / 8 <= bytes) return kept.records[i]; /* not far too large */
  if (kept.records[i]) munmap(kept.records[i], kept.bytes[i]);
  kept.records[i] = mc_map(bytes);
  kept.bytes[i] = kept.records[i] ? bytes : 0;
  return kept.records[i];
}

static uint64_t pages(uint64_t bytes) { return (bytes + MC_PAGE - 1) / MC_PAGE * MC_PAGE; }

static uint32_t* keep_group_times(uint64_t bytes) {
  if (kept.group_times_bytes >= bytes && kept.group_times_bytes / 8 <= bytes) return kept.group_times;
  if (kept.group_times) munmap(kept.group_times, kept.group_times_bytes);
  kept.group_times = mc_map(bytes);
  kept.group_times_bytes = kept.group_times ? bytes : 0;
  return kept.group_times;
}

/* As new; what is large and out of date, or known to be 0, stays as it is. */
static mc_sanitizer* keep_sanitizer(void) {
  if (!kept.sanitizer) return kept.sanitizer = mc_map(pages(sizeof(mc_sanitizer)));
  mc_sanitizer* s = kept.sanitizer;
  if (s->any_unset) memset(s->unset_reads, 0, sizeof s->unset_reads);
  memset(s, 0, offsetof(mc_sanitizer, unset_reads));
  s->any_unset = s->n_pending = 0;
  return s;
}

static mc_shadow* add_shadow(mc_sanitizer* s, uint64_t size, uint32_t shift, uint32_t space, uint32_t root) {
  mc_shadow* shadow = &s->shadows[s->n_shadows];
  *shadow = (mc_shadow){.shift = shift, .space = space, .root = root};
  const uint64_t records = ((size >> shift) / MC_BLOCK + 2) * MC_BLOCK, blocks = records / MC_BLOCK;
  shadow->bytes = pages((records + blocks) * sizeof(uint64_t));
  shadow->records = keep_records(s->n_shadows, shadow->bytes);
  if (!shadow->records) return 0;
  shadow->blocks = shadow->records + records;
  s->options->shadow_bytes += ((size >> shift) + 1) * sizeof(uint64_t);
  s->n_shadows++;
  return shadow;
}

static int make_shadows(mc_sanitizer* s, const mc_plan* plan, mc_launch* launch) {
  mc_range ranges[MC_BUFFERS];
  mc_options* o = s->options;
  uint32_t n = written_ranges(s, plan, launch, ranges);
  uint64_t bound = 0;
  for (uint32_t i = 0; i < plan->n_slots; i++) bound += launch->sizes[i];
  for (uint32_t r = 0; r < n; r++) {
    uint32_t shift = 2, root = (uint32_t)__builtin_ctz(ranges[r].slots), is_fresh = 1;
    for (uint32_t i = 0; i < MC_BUFFERS; i++) {
      if (!(ranges[r].slots >> i & 1)) continue;
      if (o->granule[i] < shift) shift = o->granule[i];
      is_fresh &= o->fresh >> i & 1;
    }
    uint64_t size = ranges[r].hi - ranges[r].lo;
    if (shift < 2 && (size >> shift) * 8 > MC_FINE_BYTES && (size >> shift) * 8 > 2 * bound) shift = 2;
    if (ranges[r].lo & ((1u << shift) - 1)) shift = 0; /* a view that starts at an odd byte */
    mc_shadow* shadow = add_shadow(s, size, shift, MC_DEVICE_SPACE, root);
    if (!shadow) return 0;
    shadow->lo = ranges[r].lo, shadow->hi = ranges[r].hi;
    shadow->is_fresh = shadow->is_set_first = is_fresh;
    mc_set_rows_end(shadow);
    for (uint32_t i = 0; i < MC_BUFFERS; i++)
      if (ranges[r].slots >> i & 1) s->roots[i] = shadow;
  }
  if (launch->group_memory_size) {
    uint32_t shift = o->granule[MC_GROUP_ROOT] < 2 ? o->granule[MC_GROUP_ROOT] : 2;
    mc_shadow* shadow = add_shadow(s, launch->group_memory_size, shift, MC_GROUP_SPACE, MC_GROUP_ROOT);
    if (!shadow) return 0;
    shadow->is_set_first = 1;
    s->roots[MC_GROUP_ROOT] = shadow;
  }
  s->roots[MC_ANY_ROOT] = s->n_shadows ? s->shadows : 0;
  return 1;
}

static void find_unwritten(mc_sanitizer* s) {
  for (uint32_t i = 0; i < s->n_shadows; i++) {
    const mc_shadow* shadow = &s->shadows[i];
    if (!shadow->is_fresh) continue;
    mc_event event = {.kind = MC_UNWRITTEN_OUTPUT, .site = ~0u, .other_site = ~0u, .root = shadow->root};
    uint64_t n = (shadow->hi - shadow->lo) >> shadow->shift;
    for (uint64_t at = 0; at < n; at++) {
      const uint64_t word = shadow->blocks[at / MC_BLOCK];
      const uint64_t record = mc_mask_of(word) ? word : shadow->records[at];
      if (mc_time_of(record) >= s->launch_start && mc_kind_of(record) & MC_HAS_VALUE) continue;
      if (!event.count++) event.address = shadow->lo + (at << shadow->shift);
    }
    event.size = 1u << shadow->shift;
    event.other_address = shadow->lo;
    if (event.count) {
      event.site = ~1u - shadow->root; /* each buffer on its own */
      mc_event_add(s, &event);
    }
  }
}

/* As mc_call, on one thread, with findings in options. */
MC_EXPORT int mc_sanitize(const mc_plan* plan, const uint64_t* packed, mc_region* regions, uint64_t n_regions,
                          mc_options* options, uint64_t limit) {
  uint64_t total = (uint64_t)plan->launch.groups[0] * plan->launch.groups[1] * plan->launch.groups[2];
  mc_sanitizer* s = keep_sanitizer();
  if (!s) return MC_NO_MEMORY;
  mc_launch launch;
  runtime.bind(plan, packed, &launch);
  launch.sanitizer = s;
  s->launch = &launch;
  s->options = options;
  s->random = options->seed;
  s->time = kept.time;
  s->launch_start = kept.time + 1;
  s->row = mc_track_row;
  s->lanes = mc_track_lanes;
  s->matrix = mc_track_matrix;
  s->barrier = mc_at_barrier;
  s->simdgroup_barrier = mc_at_simdgroup_barrier;
  s->fence = mc_at_fence;
  s->begin_group = mc_begin_group;
  s->end_simdgroup = mc_end_simdgroup;
  s->shuffle = mc_at_shuffle;
  s->unset = mc_at_use_of_unset;
  s->set_memory = mc_at_set_memory;
  s->loop = mc_track_loop;
  s->read_row = mc_read_row;
  s->write_row = mc_write_row;
  s->nth_group = mc_nth_group;
  s->out_of_bounds = mc_out_of_bounds;
  s->group_times = keep_group_times(pages((total + 1) * sizeof(uint32_t)));
  int status = MC_NO_MEMORY;
  if (s->group_times && make_shadows(s, plan, &launch)) {
    status = runtime.start(plan, &launch, 1, regions, n_regions, limit);
    if (s->n_pending) mc_settle(s);
    if (options->unwritten && !(status & MC_LEFT) && !s->has_forgotten) find_unwritten(s);
  }
  kept.time = s->time;
  return status;
}

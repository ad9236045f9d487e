/* A plan's launches again, for arguments of known shapes: runtimes/replay.py without running Python code. A call of a
 * small op costs little else, and after a kernel has streamed through the caches all that Python touches comes from
 * far away. Part of runtime.c, behind python.c. */
#include "runtime.h"

#define MC_MOST_ARRAYS 64
#define MC_MOST_WORDS 256
#define MC_KNOWN 4
#define MC_EQUAL 2 /* Py_EQ */

/* recordings.py has the same structs. */
typedef struct mc_match { /* what an argument must be: a tensor, or a value of the same type */
  mc_object *shape, *dtype, *contiguous, *value;
  int64_t size, item; /* bytes of the tensor and of an element */
} mc_match;

typedef struct mc_maker { /* like an array, a contiguous copy of it, or (like < 0) by the arguments of torch.empty_strided */
  int64_t like, is_copy;
  mc_object *shape_and_stride[2], *named;
} mc_maker;

typedef struct mc_address { /* a word of the packed arguments, and the array whose address it gets */
  uint32_t word, array;
} mc_address;

typedef struct mc_step { /* a launch; without a plan: a look at the errors that a kernel noted, or with n_words at info */
  const mc_plan* plan;
  const mc_maker* makers;
  const mc_address* addresses;
  const uint64_t* words;
  uint32_t n_makers, n_addresses, n_words, errors;
  uint64_t n_errors;
} mc_step;

typedef struct mc_recording {
  const mc_match* matches;
  const mc_step* steps;
  const uint32_t* results;
  uint32_t n_arguments, n_steps, n_results, number;
} mc_recording;

typedef struct mc_recordings { /* the one that was used last comes first */
  const mc_recording* known[MC_KNOWN];
  mc_object *empty_strided, *empty_like;
} mc_recordings;

static int has(mc_object* object, mc_object* name, mc_object* wanted) {
  mc_object* found = python.attribute(object, name);
  if (!found) return 0;
  int same = found == wanted || python.compare(found, wanted, MC_EQUAL) == 1;
  python.dec_ref(found);
  return same;
}

static int fits(const mc_match* match, mc_object* object) {
  if (match->value) {
    if (object == match->value) return 1;
    mc_object* type = python.type_of(match->value);
    python.dec_ref(type); /* a type outlives its objects */
    return is_of(object, type) && python.compare(object, match->value, MC_EQUAL) == 1;
  }
  if (!has(object, python.names.dtype, match->dtype) || !has(object, python.names.shape, match->shape)) return 0;
  mc_object* found = python.call_method(python.names.is_contiguous, &object, 1, 0);
  if (found) python.dec_ref(found);
  return found == match->contiguous && room_of(object, match->item) >= match->size;
}

static const mc_recording* find(mc_recordings* all, mc_object* const* arguments, int64_t n) {
  for (uint32_t i = 0; i < MC_KNOWN && all->known[i]; i++) {
    const mc_recording* found = all->known[i];
    int same = found->n_arguments == n;
    for (int64_t a = 0; same && a < n; a++) same = fits(&found->matches[a], arguments[a]);
    python.clear_error(); /* of a value that has no dtype */
    if (!same) continue;
    for (; i; i--) all->known[i] = all->known[i - 1];
    return all->known[0] = found;
  }
  return 0;
}

static mc_object* make(const mc_recordings* all, const mc_maker* maker, mc_object* const* arrays) {
  if (maker->is_copy) return python.call_method(python.names.contiguous, &arrays[maker->like], 1, 0);
  if (maker->like >= 0) return python.call(all->empty_like, &arrays[maker->like], 1, 0);
  return python.call(all->empty_strided, maker->shape_and_stride, 2, maker->named);
}

/* 0 with Python's error set, where there is no address. */
static int address_of(mc_object* array, uint64_t* address) {
  mc_object* found = python.call_method(python.names.data_ptr, &array, 1, 0);
  if (!found) return 0;
  *address = python.as_address(found);
  python.dec_ref(found);
  return !(*address == (uint64_t)-1 && python.error());
}

static int launch_step(const mc_step* step, mc_object* const* arrays, uint32_t threads) {
  _Alignas(16) uint64_t words[MC_MOST_WORDS];
  memcpy(words, step->words, 8 * step->n_words);
  for (uint32_t i = 0; i < step->n_addresses; i++)
    if (!address_of(arrays[step->addresses[i].array], &words[step->addresses[i].word])) return -1;
  mc_launch launch;
  mc_bind(step->plan, words, &launch);
  void* state = python.release_lock();
  int result = mc_start(step->plan, &launch, threads, 0, 0, 0);
  python.take_lock(state);
  return result;
}

/* 1: a kernel noted an error; -1: Python's error is set. */
static int check_step(const mc_step* step, mc_object* const* arrays) {
  uint64_t address;
  if (!address_of(arrays[step->errors], &address)) return -1;
  const int32_t* info = (const int32_t*)(uintptr_t)address;
  if (step->n_words) {
    for (uint64_t i = 0; i < step->n_errors; i++)
      if (info[i]) return 1;
    return 0;
  }
  const int64_t* rows = (const int64_t*)(uintptr_t)address;
  for (uint64_t i = 0; i < step->n_errors; i++)
    if (rows[3 * i]) return 1;
  return 0;
}

/* What happened, for Python to raise: [recording, step, status, the noted errors or None]. */
static mc_object* failure(const mc_recording* recording, uint32_t step, int status, mc_object* errors) {
  mc_object* list = python.new_list(4);
  if (!list) return 0;
  if (!errors) errors = python.none;
  python.inc_ref(errors);
  python.set_list_item(list, 0, python.from_integer(recording->number));
  python.set_list_item(list, 1, python.from_integer(step));
  python.set_list_item(list, 2, python.from_integer(status));
  python.set_list_item(list, 3, errors);
  return list;
}

static mc_object* run_steps(const mc_recordings* all, const mc_recording* recording, uint32_t threads,
                            mc_object** arrays, uint32_t* n) {
  for (uint32_t at = 0; at < recording->n_steps; at++) {
    const mc_step* step = &recording->steps[at];
    if (!step->plan) {
      int found = check_step(step, arrays);
      if (found) return found < 0 ? 0 : failure(recording, at, 0, arrays[step->errors]);
      continue;
    }
    for (uint32_t i = 0; i < step->n_makers; i++) {
      arrays[*n] = make(all, &step->makers[i], arrays);
      if (!arrays[*n]) return 0;
      ++*n;
    }
    int result = launch_step(step, arrays, threads);
    if (result) return result < 0 ? 0 : failure(recording, at, result, 0);
  }
  mc_object* results = python.new_tuple(recording->n_results);
  for (uint32_t i = 0; results && i < recording->n_results; i++) {
    mc_object* array = arrays[recording->results[i]];
    python.inc_ref(array);
    python.set_tuple_item(results, i, array);
  }
  return results;
}

/* A method of an int that holds the address of mc_recordings, called with the number of threads and what the plan gets:
 * a tuple of results, a list that tells what failed, or None where the arguments are not known. */
static mc_object* repeat(mc_object* self, mc_object* const* arguments, int64_t n) {
  mc_recordings* all = (mc_recordings*)(uintptr_t)python.as_address(self);
  uint32_t threads = (uint32_t)python.as_integer(*arguments++);
  n--;
  const mc_recording* recording = find(all, arguments, n);
  if (!recording) {
    python.inc_ref(python.none);
    return python.none;
  }
  mc_object* arrays[MC_MOST_ARRAYS];
  memcpy(arrays, arguments, sizeof(mc_object*) * (size_t)n);
  uint32_t made = (uint32_t)n;
  mc_object* result = run_steps(all, recording, threads, arrays, &made);
  while (made > n) python.dec_ref(arrays[--made]);
  return result;
}

MC_EXPORT mc_method mc_repeat = {"repeat", (void*)repeat, MC_FASTCALL, 0};

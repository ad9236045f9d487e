/* A call with NumPy arrays, torch tensors and numbers only, bound without running Python code: what a launch costs is felt.
 *
 * Everything else, mistakes included, is left to binding.py. Python's functions come as addresses, so that building
 * the runtime needs no header of Python and loading it no symbol. */
#include "runtime.h"

typedef struct mc_object mc_object;

typedef struct mc_buffer_view { /* Py_buffer, which is part of Python's stable ABI */
  void* address;
  mc_object* owner;
  int64_t size, item_size;
  int read_only, dimensions;
  const char* format;
  int64_t *shape, *strides, *suboffsets;
  void* internal;
} mc_buffer_view;

#define MC_CONTIGUOUS_WITH_FORMAT 0x3c /* PyBUF_C_CONTIGUOUS | PyBUF_FORMAT */

/* native_library.py fills it in the same order. */
typedef struct mc_python {
  int (*get_buffer)(mc_object*, mc_buffer_view*, int);
  void (*release_buffer)(mc_buffer_view*);
  mc_object* (*tuple_item)(mc_object*, int64_t);
  int64_t (*tuple_size)(mc_object*);
  mc_object* (*type_of)(mc_object*);
  void (*dec_ref)(mc_object*);
  double (*as_double)(mc_object*);
  long long (*as_integer)(mc_object*);
  mc_object* (*error)(void);
  void (*clear_error)(void);
  void* (*release_lock)(void);
  void (*take_lock)(void*);
  void (*inc_ref)(mc_object*);
  mc_object* (*attribute)(mc_object*, mc_object* name);
  int (*compare)(mc_object*, mc_object*, int);
  mc_object* (*call)(mc_object*, mc_object* const*, size_t, mc_object* named);
  mc_object* (*call_method)(mc_object* name, mc_object* const*, size_t, mc_object* names);
  uint64_t (*as_address)(mc_object*);
  mc_object* (*from_integer)(long long);
  mc_object* (*new_tuple)(int64_t);
  int (*set_tuple_item)(mc_object*, int64_t, mc_object*);
  mc_object* (*new_list)(int64_t);
  int (*set_list_item)(mc_object*, int64_t, mc_object*);
  int (*ensure_lock)(void);
  void (*give_back_lock)(int);
  int (*check_signals)(void);
  void (*take_error)(mc_object**, mc_object**, mc_object**);
  void (*set_error)(mc_object*, mc_object*, mc_object*);
  mc_object *array_type, *float_type, *int_type, *none;
  struct {
    mc_object *data_ptr, *dtype, *shape, *is_contiguous, *untyped_storage, *nbytes, *storage_offset, *is_neg;
    mc_object *base, *contiguous;
  } names;
} mc_python;

static mc_python python;

MC_EXPORT void mc_set_python(const mc_python* functions) { python = *functions; }

static int is_of(mc_object* object, mc_object* wanted) {
  mc_object* type = python.type_of(object);
  python.dec_ref(type);
  return type == wanted;
}

#include "tensor.c"

/* Whether an array is not a view of another one. */
static int is_whole(mc_object* array) {
  mc_object* base = python.attribute(array, python.names.base);
  if (base) python.dec_ref(base);
  return base == python.none;
}

/* Fills view; what it holds is the caller's to release. */
static int bind_array(const mc_rule* rule, int written, int how, mc_object* object, mc_buffer_view* view) {
  if (!is_of(object, python.array_type)) return 0;
  if (python.get_buffer(object, view, MC_CONTIGUOUS_WITH_FORMAT) != 0) {
    python.clear_error();
    return 0;
  }
  int is_one = view->format && view->format[0] && view->format[1] == 0;
  uint64_t misaligned = rule->misaligned;
  int fits = is_one && (uint8_t)view->format[0] == rule->format;
  if (how == MC_STORAGE) fits = is_one && view->format[0] != 'O' && is_whole(object);
  if (how == MC_ELEMENTS) fits = 1, misaligned |= (uint64_t)view->item_size - 1;
  if (fits && view->size && !((uintptr_t)view->address & misaligned) && !(written && view->read_only)) return 1;
  python.release_buffer(view);
  return 0;
}

typedef struct mc_instance { /* nanobind's nb_inst: an object of C++ behind a Python object's head */
  const void* head[2];
  int32_t offset;
  uint32_t flags;
} mc_instance;

#define MC_INSTANCE_DIRECT 4u

static struct {
  mc_object* array_type;
  _Bool (*is_tracer)(const void*); /* whether it takes part in a transformation of a function */
} mlx;

/* The type lives as long as the process. arrays/mlx_private.py has tried out that arrays are as is said here. */
MC_EXPORT void mc_set_mlx(mc_object* array_type, _Bool (*is_tracer)(const void*)) {
  mlx.is_tracer = is_tracer, mlx.array_type = array_type;
}

/* The same for an mlx array, which is evaluated here; not inside mx.grad and its kin, which must see a step of a graph.
 * Only what was made for this launch is written to. */
static int bind_mlx(const mc_rule* rule, int written, mc_object* object, mc_buffer_view* view) {
  if (!mlx.array_type || !is_of(object, mlx.array_type) || (written && !rule->is_writable)) return 0;
  const mc_instance* instance = (const mc_instance*)object;
  if (!(instance->flags & MC_INSTANCE_DIRECT) || mlx.is_tracer((const char*)object + instance->offset)) return 0;
  if (python.get_buffer(object, view, MC_CONTIGUOUS_WITH_FORMAT) != 0) {
    python.clear_error();
    return 0;
  }
  int64_t bytes = view->item_size; /* mlx does not look at what it is asked for */
  int is_compact = 1;
  for (int i = view->dimensions; i-- > 0;) {
    if (view->shape[i] != 1 && view->strides[i] != bytes) is_compact = 0;
    bytes *= view->shape[i];
  }
  view->size = bytes, view->read_only = !rule->is_writable;
  uint64_t misaligned = rule->misaligned | ((uint64_t)view->item_size - 1);
  if (is_compact && bytes && !((uintptr_t)view->address & misaligned)) return 1;
  python.release_buffer(view);
  return 0;
}

static int has_failed(void) {
  if (!python.error()) return 0;
  python.clear_error();
  return 1;
}

static int bind_number(const mc_rule* rule, mc_object* object, uint64_t* value) {
  int is_int = is_of(object, python.int_type);
  if (rule->kind == MC_RULE_FLOAT) {
    if (!is_int && !is_of(object, python.float_type)) return 0;
    double wide = python.as_double(object);
    if (wide == -1.0 && has_failed()) return 0;
    float narrow = (float)wide;
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    *value = bits;
    return !__builtin_isfinite(wide) || __builtin_isfinite(narrow);
  }
  if (!is_int) return 0;
  long long number = python.as_integer(object);
  if (number == -1 && has_failed()) return 0;
  *value = (uint64_t)number;
  return rule->low <= number && number <= rule->high;
}

static mc_object* raised[3]; /* by a handler of a signal, in the main thread: type, value, traceback */

int mc_python_raises(uint64_t* time) {
  int state = python.ensure_lock();
  *time = mc_now() - *time;
  int has_raised = python.check_signals() != 0;
  if (has_raised) python.take_error(&raised[0], &raised[1], &raised[2]);
  python.give_back_lock(state);
  return has_raised;
}

/* Called with Python's lock held, by the thread whose launch answered MC_RAISED. */
MC_EXPORT void mc_raise_again(void) {
  python.set_error(raised[0], raised[1], raised[2]);
  memset(raised, 0, sizeof raised);
}

/* A number as it is, as torch passes it: 64 bits of an integer, 32 of a float. */
static uint32_t raw_number(mc_object* object, uint64_t* value) {
  if (is_of(object, python.int_type)) {
    long long number = python.as_integer(object);
    *value = (uint64_t)number;
    return number == -1 && has_failed() ? 0 : 8;
  }
  if (!is_of(object, python.float_type)) return 0;
  float narrow = (float)python.as_double(object);
  uint32_t bits;
  memcpy(&bits, &narrow, 4);
  *value = bits;
  return 4;
}

/* The result of mc_call, or MC_NOT_SIMPLE where an argument needs a closer look; then nothing has happened. */
static int call_objects(const mc_plan* plan, mc_object* arguments, uint32_t threads, int how) {
  const mc_rule* rules = plan->rules;
  uint32_t n_slots = plan->n_slots;
  if (python.tuple_size(arguments) != n_slots) return MC_NOT_SIMPLE;
  mc_launch launch;
  mc_begin(plan, &launch);
  mc_buffer_view views[MC_BUFFERS];
  _Alignas(16) uint64_t values[MC_BUFFERS][2];
  uint32_t n_views = 0, at = 0;
  for (; at < n_slots; at++) {
    mc_object* object = python.tuple_item(arguments, at);
    if (rules[at].kind == MC_RULE_NONE) break;
    if (rules[at].kind == MC_RULE_ARRAY || how == MC_ELEMENTS) {
      if (bind_tensor(&rules[at], object, how, &launch.buffers[at], &launch.sizes[at])) continue;
      mc_buffer_view* view = &views[n_views];
      int written = plan->written >> at & 1;
      if (!bind_array(&rules[at], written, how, object, view) &&
          !(how == MC_ELEMENTS && bind_mlx(&rules[at], written, object, view)))
        break;
      n_views++;
      launch.buffers[at] = view->address;
      if (view->read_only) launch.read_only |= 1u << at;
      launch.sizes[at] = (uint64_t)view->size;
    } else {
      launch.sizes[at] = rules[at].size;
      if (how == MC_STORAGE) launch.sizes[at] = raw_number(object, values[at]);
      if (how == MC_STORAGE ? !launch.sizes[at] : !bind_number(&rules[at], object, values[at])) break;
      launch.buffers[at] = values[at];
    }
  }
  int result = MC_NOT_SIMPLE;
  if (at == n_slots) {
    void* state = python.release_lock();
    result = mc_start(plan, &launch, threads, 0, 0, 0);
    python.take_lock(state);
  }
  while (n_views) python.release_buffer(&views[--n_views]);
  return result;
}

/* (address of a plan, tuple of arguments, threads, how) -> call_objects. */
static mc_object* call_from_python(mc_object* self, mc_object* const* given, int64_t n) {
  (void)self, (void)n;
  const mc_plan* plan = (const mc_plan*)(uintptr_t)python.as_address(given[0]);
  uint32_t threads = (uint32_t)python.as_integer(given[2]);
  return python.from_integer(call_objects(plan, given[1], threads, (int)python.as_integer(given[3])));
}

typedef struct mc_method { /* PyMethodDef */
  const char* name;
  void* function;
  int flags;
  const char* doc;
} mc_method;

#define MC_FASTCALL 0x80 /* METH_FASTCALL */

MC_EXPORT mc_method mc_call_objects = {"call_objects", (void*)call_from_python, MC_FASTCALL, 0};

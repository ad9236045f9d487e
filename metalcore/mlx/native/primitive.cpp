// A recorded plan as a primitive of MLX: a step of its lazy graph that runs the engine on the thread of its stream.
//
// No Python runs on a stream's thread: the one that waits for it may hold Python's lock. A plan that is a Python function
// is called by the thread that evaluates. Gradients, vmap and jvp are
// not here: metalcore/mlx/call.py wraps each op in mx.custom_function. nanobind is not needed either: an mlx::core::array
// lies behind the head of its Python object, where arrays/mlx_private.py has looked.
#include "mlx/backend/cpu/encoder.h"
#include "mlx/mlx.h"
#include "mlx/primitives.h"
#include "mlx/utils.h"
#include "plan.h"
#ifdef __APPLE__
#include "metal.h"
#endif

namespace mx = mlx::core;

// The part of Python's stable ABI that is used, so that no header of Python is needed to build.
struct PyObject;
extern "C" {
PyObject* PyTuple_New(std::ptrdiff_t);
int PyTuple_SetItem(PyObject*, std::ptrdiff_t, PyObject*);
PyObject* PyLong_FromLongLong(long long);
long long PyLong_AsLongLong(PyObject*);
PyObject* PyObject_CallFunctionObjArgs(PyObject*, ...);
void PyErr_SetString(PyObject*, const char*);
void* PyEval_SaveThread();
void PyEval_RestoreThread(void*);
void Py_IncRef(PyObject*);
void Py_DecRef(PyObject*);
extern PyObject *PyExc_RuntimeError, *PyExc_TypeError;
}

namespace metalcore {
namespace {

struct {
  Functions functions;
  PyObject *none, *array_type, *zero;
} given;

constexpr mx::Dtype DTYPES[] = {mx::float32, mx::float16, mx::bfloat16, mx::float64, mx::int64, mx::int32,
                                mx::int16,   mx::int8,    mx::uint8,    mx::uint32,  mx::bool_};
constexpr uint64_t SMALL = 1 << 16;  // bytes of arrays for which no other thread is woken

mx::Dtype dtype_of(const Made& made) { return DTYPES[made.dtype]; }
mx::Shape shape_of(const Made& made) { return mx::Shape(made.shape.begin(), made.shape.end()); }

void copy_rows(const char* from, char*& to, const mx::array& x, size_t axis) {
  if (axis == x.ndim()) {
    std::memcpy(to, from, x.itemsize());
    to += x.itemsize();
    return;
  }
  int64_t n = x.shape()[axis], step = x.strides()[axis] * static_cast<int64_t>(x.itemsize());
  if (axis + 1 == x.ndim() && x.strides()[axis] == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * x.itemsize());
    to += static_cast<size_t>(n) * x.itemsize();
    return;
  }
  for (int64_t i = 0; i < n; i++) copy_rows(from + i * step, to, x, axis + 1);
}

// Inputs, row after row; what the plan makes and no result is; and a run on all of them.
bool run_on(const Plan& plan, const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs, uint32_t threads,
            Failure* failure) {
  std::vector<std::unique_ptr<char[]>> scratch;
  auto room = [&](uint64_t bytes) {
    scratch.emplace_back(new char[bytes + 1]);  // aligned to 16 bytes, more than any type of a kernel asks for
    return scratch.back().get();
  };
  std::vector<void*> arrays(inputs.size() + plan.made.size());
  for (size_t i = 0; i < inputs.size(); i++) {
    const mx::array& x = inputs[i];
    if (!x.size()) continue;
    arrays[i] = const_cast<char*>(x.data<char>());
    if (x.flags().row_contiguous) continue;
    char* to = room(x.nbytes());
    arrays[i] = to;
    copy_rows(x.data<char>(), to, x, 0);
  }
  for (size_t i = 0; i < plan.results.size(); i++)
    if (plan.results[i] >= inputs.size() && outputs[i].size()) arrays[plan.results[i]] = outputs[i].data<void>();
  for (size_t i = 0; i < plan.made.size(); i++)
    if (!arrays[inputs.size() + i] && plan.made[i].bytes) arrays[inputs.size() + i] = room(plan.made[i].bytes);
  bool is_good = run(plan, arrays.data(), given.functions, threads, failure);
  for (size_t i = 0; is_good && i < plan.results.size(); i++)  // an input that is a result too
    if (plan.results[i] < inputs.size() && outputs[i].size())
      std::memcpy(outputs[i].data<char>(), arrays[plan.results[i]], outputs[i].nbytes());
  return is_good;
}

class Steps : public mx::Primitive {
 public:
  Steps(mx::Stream stream, std::shared_ptr<const Plan> plan, uint32_t threads, bool stands_in = false)
      : mx::Primitive(stream), plan_(std::move(plan)), threads_(threads), stands_in_(stands_in) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    check(inputs);
    if (plan_->is_metal) throw std::runtime_error("metalcore." + plan_->name + " was traced for a GPU, not for the CPU");
    for (auto& y : outputs) y.set_data(mx::allocator::malloc(y.nbytes()));
    if (plan_->has_checks) {
      // An exception on a stream's thread is not told reliably by mlx 0.32, and leaves it waiting later: so what may
      // find an error runs here, on the thread that evaluates, once the stream has done what comes before.
      mx::synchronize(stream());
      Failure failure;
      if (!run_on(*plan_, inputs, outputs, threads_, &failure)) throw std::runtime_error(words_of(*plan_, failure));
      return;
    }
    std::vector<mx::array> in, out;
    for (auto& x : inputs) in.push_back(mx::array::unsafe_weak_copy(x));
    for (auto& y : outputs) out.push_back(mx::array::unsafe_weak_copy(y));
    mx::cpu::get_command_encoder(stream()).dispatch(
        [plan = plan_, threads = threads_, in = std::move(in), out = std::move(out)]() mutable {
          Failure failure;
          if (!run_on(*plan, in, out, threads, &failure)) throw std::runtime_error(words_of(*plan, failure));
        });
  }

  void eval_gpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
#ifdef __APPLE__
    if (plan_->is_metal) {
      check(inputs);
      std::vector<mx::array> arrays = inputs;
      for (auto& made : plan_->made) {
        arrays.emplace_back(shape_of(made), dtype_of(made), nullptr, std::vector<mx::array>{});
        auto& array = arrays.back();
        for (size_t i = 0; i < outputs.size(); i++)
          if (plan_->results[i] + 1 == arrays.size()) array = outputs[i];
        array.set_data(mx::allocator::malloc(made.bytes ? made.bytes : 16));  // what is bound has memory
      }
      encode(*plan_, stream(), arrays);
      return;
    }
#endif
    throw std::runtime_error("metalcore." + plan_->name + ": this primitive runs on the CPU");
  }

  // MLX maps every node of a graph, those too whose results the rule of the op around them replaces, or refuses: what
  // stands in for these results has a shape and is never evaluated.
  std::pair<std::vector<mx::array>, std::vector<int>> vmap(const std::vector<mx::array>& inputs,
                                                           const std::vector<int>& axes) override {
    int count = 1;
    std::vector<mx::array> rows = inputs;
    for (size_t i = 0; i < axes.size(); i++) {
      if (axes[i] < 0) continue;
      count = inputs[i].shape(axes[i]);
      auto shape = inputs[i].shape();
      shape.erase(shape.begin() + axes[i]);
      rows[i] = mx::zeros(shape, inputs[i].dtype(), stream());
    }
    std::vector<mx::Shape> shapes;
    std::vector<mx::Dtype> dtypes;
    outputs_of(rows, shapes, dtypes);
    for (auto& shape : shapes) shape.insert(shape.begin(), count);
    return {standing_in(shapes, dtypes, inputs), std::vector<int>(shapes.size(), 0)};
  }

  std::vector<mx::array> jvp(const std::vector<mx::array>& primals, const std::vector<mx::array>&,
                             const std::vector<int>&) override {
    std::vector<mx::Shape> shapes;
    std::vector<mx::Dtype> dtypes;
    outputs_of(primals, shapes, dtypes);
    return standing_in(shapes, dtypes, primals);
  }

  const char* name() const override { return "MetalcoreOp"; }

  bool is_equivalent(const mx::Primitive& other) const override {
    return plan_ == static_cast<const Steps&>(other).plan_;
  }

  void outputs_of(const std::vector<mx::array>& inputs, std::vector<mx::Shape>& shapes,
                  std::vector<mx::Dtype>& dtypes) const {
    for (uint32_t result : plan_->results) {
      bool is_made = result >= inputs.size();
      shapes.push_back(is_made ? shape_of(plan_->made[result - inputs.size()]) : inputs[result].shape());
      dtypes.push_back(is_made ? dtype_of(plan_->made[result - inputs.size()]) : inputs[result].dtype());
    }
  }

 private:
  void check(const std::vector<mx::array>& inputs) const {
    bool fits = !stands_in_;
    for (size_t i = 0; fits && i < plan_->inputs.size(); i++) fits = inputs[i].nbytes() == plan_->inputs[i];
    if (!fits) throw std::runtime_error("metalcore." + plan_->name + " was traced for other arrays than it got");
  }

  std::vector<mx::array> standing_in(const std::vector<mx::Shape>& shapes, const std::vector<mx::Dtype>& dtypes,
                                     const std::vector<mx::array>& inputs) {
    auto primitive = std::make_shared<Steps>(stream(), plan_, threads_, true);
    return mx::array::make_arrays(shapes, dtypes, primitive, inputs);
  }

  std::shared_ptr<const Plan> plan_;
  uint32_t threads_;
  bool stands_in_;
};

struct Instance {  // nanobind's nb_inst
  const void* head[2];
  int32_t offset;
  uint32_t flags;
};

mx::array& array_of(PyObject* object) {
  return *reinterpret_cast<mx::array*>(reinterpret_cast<char*>(object) + reinterpret_cast<Instance*>(object)->offset);
}

bool is_array(PyObject* object) {
  constexpr uint32_t DIRECT = 4;
  auto instance = reinterpret_cast<Instance*>(object);
  return instance->head[1] == given.array_type && instance->flags & DIRECT;
}

PyObject* tuple_of(const std::vector<mx::array>& arrays) {
  PyObject* tuple = PyTuple_New(static_cast<std::ptrdiff_t>(arrays.size()));
  for (size_t i = 0; tuple && i < arrays.size(); i++) {
    PyObject* made = PyObject_CallFunctionObjArgs(given.array_type, given.zero, nullptr);
    if (!made || !is_array(made)) {
      Py_DecRef(tuple);
      return nullptr;
    }
    array_of(made) = arrays[i];
    PyTuple_SetItem(tuple, static_cast<std::ptrdiff_t>(i), made);
  }
  return tuple;
}

struct LockReleased {
  void* state = PyEval_SaveThread();
  ~LockReleased() { PyEval_RestoreThread(state); }
};

enum { AUTOMATIC, AT_ONCE, LAZY };  // as record.py has them; the first gives None for arrays that are traced

PyObject* call(const std::shared_ptr<const Plan>& plan, int how, uint32_t threads, const std::vector<mx::array>& inputs) {
  bool is_there = true, is_traced = false;
  uint64_t bytes = 0;
  for (auto& x : inputs) {
    is_there = is_there && x.is_available();
    is_traced |= x.is_tracer();
    bytes += x.nbytes();
  }
  if (how == AUTOMATIC && is_traced) {
    Py_IncRef(given.none);
    return given.none;
  }
  if (bytes <= SMALL) threads = 1;
  auto steps = std::make_shared<Steps>(mx::to_stream({}), plan, threads);
  std::vector<mx::Shape> shapes;
  std::vector<mx::Dtype> dtypes;
  steps->outputs_of(inputs, shapes, dtypes);
  if (plan->is_metal) {  // a GPU's kernels read rows that lie one after the other
    std::vector<mx::array> rows;
    for (auto& x : inputs) rows.push_back(mx::contiguous(x));
    return tuple_of(mx::array::make_arrays(shapes, dtypes, steps, rows));
  }
  if (how == LAZY || (how == AUTOMATIC && (!is_there || bytes > SMALL)))
    return tuple_of(mx::array::make_arrays(shapes, dtypes, steps, inputs));
  std::vector<mx::array> outputs;
  for (size_t i = 0; i < shapes.size(); i++) {
    uint64_t size = dtypes[i].size();
    for (auto n : shapes[i]) size *= static_cast<uint64_t>(n);
    outputs.emplace_back(mx::allocator::malloc(size), shapes[i], dtypes[i]);
  }
  Failure failure;
  bool is_good;
  {
    LockReleased released;
    is_good = run_on(*plan, inputs, outputs, threads, &failure);
  }
  if (is_good) return tuple_of(outputs);
  PyObject* found = PyTuple_New(5);  // None first: no tuple of arrays
  Py_IncRef(given.none);
  PyTuple_SetItem(found, 0, given.none);
  const int64_t numbers[] = {failure.step, failure.status, failure.position, failure.value};
  for (int i = 0; i < 4; i++) PyTuple_SetItem(found, i + 1, PyLong_FromLongLong(numbers[i]));
  return found;
}

// A method of an int that is the plan's address: (how, threads, *arrays) -> results; None where one is traced and `how`
// is AUTOMATIC; or (None, step, status, position, value) where a launch failed or a kernel noted an error.
PyObject* call_from_python(PyObject* self, PyObject* const* arguments, std::ptrdiff_t n) {
  auto plan = reinterpret_cast<const std::shared_ptr<const Plan>*>(PyLong_AsLongLong(self));
  std::vector<mx::array> inputs;
  if (static_cast<size_t>(n) != (*plan)->inputs.size() + 2) {
    PyErr_SetString(PyExc_TypeError, "a recorded plan got another number of arrays");
    return nullptr;
  }
  for (std::ptrdiff_t i = 2; i < n; i++) {
    if (!is_array(arguments[i]) || array_of(arguments[i]).nbytes() != (*plan)->inputs[i - 2]) {
      PyErr_SetString(PyExc_TypeError, "a recorded plan got what it was not recorded for");
      return nullptr;
    }
    inputs.push_back(array_of(arguments[i]));
  }
  try {
    auto how = static_cast<int>(PyLong_AsLongLong(arguments[0]));
    return call(*plan, how, static_cast<uint32_t>(PyLong_AsLongLong(arguments[1])), inputs);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

struct Method {  // PyMethodDef
  const char* name;
  void* function;
  int flags;
  const char* doc;
};

}  // namespace
}  // namespace metalcore

extern "C" {
__attribute__((visibility("default"))) metalcore::Method mcx_call = {
    "call", reinterpret_cast<void*>(metalcore::call_from_python), 0x80 /* METH_FASTCALL */, nullptr};

// Names the sources and the version of mlx that this was made of.
__attribute__((visibility("default"))) const char* mcx_key() { return METALCORE_KEY; }

__attribute__((visibility("default"))) void mcx_set(metalcore::Launch launch, metalcore::Python python, PyObject* none,
                                                    PyObject* array_type, PyObject* zero) {
  metalcore::given = {{launch, python}, none, array_type, zero};
}

// The number of a Python function that no plan has any more; 0 where there is none.
__attribute__((visibility("default"))) uint64_t mcx_dead() { return metalcore::take_dead(); }

// What record.py writes, number by number; texts follow each other, each ended by a zero byte. Never null.
__attribute__((visibility("default"))) void* mcx_plan(const int64_t* at, const char* text) {
  auto plan = std::make_shared<metalcore::Plan>();
  auto next_text = [&] {
    std::string found = text;
    text += found.size() + 1;
    return found;
  };
  plan->name = next_text();
  for (int64_t n = *at++; n > 0; n--) plan->inputs.push_back(static_cast<uint64_t>(*at++));
  for (int64_t n = *at++; n > 0; n--) {
    metalcore::Made made;
    made.dtype = static_cast<int>(*at++);
    made.bytes = metalcore::DTYPES[made.dtype].size();
    for (int64_t axes = *at++; axes > 0; axes--) {
      made.shape.push_back(static_cast<int>(*at));
      made.bytes *= static_cast<uint64_t>(*at++);
    }
    plan->made.push_back(made);
  }
  for (int64_t n = *at++; n > 0; n--) {
    metalcore::Step step{};
    step.kind = *at++;
    if (step.kind == metalcore::Step::LAUNCH) {
      auto engine = reinterpret_cast<const char*>(*at++);
      step.plan.resize(static_cast<size_t>(*at++ + 7) / 8);
      std::memcpy(step.plan.data(), engine, step.plan.size() * 8);
      for (int64_t words = *at++; words > 0; words--) step.words.push_back(static_cast<uint64_t>(*at++));
      for (int64_t addresses = *at++; addresses > 0; addresses--, at += 2)
        step.addresses.emplace_back(static_cast<uint32_t>(at[0]), static_cast<uint32_t>(at[1]));
    } else if (step.kind == metalcore::Step::METAL) {
      plan->is_metal = true;
      for (int64_t slots = *at++; slots > 0; slots--, at += 3)
        step.slots.push_back({at[0], static_cast<uint64_t>(at[1]), static_cast<uint64_t>(at[2])});
      for (auto& size : step.groups) size = static_cast<uint64_t>(*at++);
      for (auto& size : step.group) size = static_cast<uint64_t>(*at++);
      step.library = next_text(), step.source = next_text(), step.text = next_text();
    } else if (step.kind == metalcore::Step::PYTHON) {
      plan->has_checks = true;
      plan->python = static_cast<uint64_t>(*at++);
    } else {
      plan->has_checks = true;
      step.array = static_cast<uint32_t>(*at++);
      step.rows = static_cast<uint64_t>(*at++);
      step.text = next_text();
    }
    plan->steps.push_back(std::move(step));
  }
  for (int64_t n = *at++; n > 0; n--) plan->results.push_back(static_cast<uint32_t>(*at++));
  return new std::shared_ptr<const metalcore::Plan>(std::move(plan));
}

__attribute__((visibility("default"))) void mcx_forget(void* plan) {
  delete static_cast<std::shared_ptr<const metalcore::Plan>*>(plan);
}
}

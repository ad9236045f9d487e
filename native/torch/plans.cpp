#include "plans.h"

namespace metalcore {
namespace {

// In the order of MSL_TYPES in metalcore/runtimes/kernel.py.
constexpr at::ScalarType kTypes[] = {at::kFloat, at::kHalf,  at::kBFloat16, at::kLong,   at::kInt,
                                     at::kShort, at::kChar, at::kByte,     at::kUInt32, at::kBool};

class Reader {
 public:
  Reader(const uint64_t* words, uint64_t count) : words_(words), left_(count) {}
  bool has(uint64_t count) const { return left_ >= count; }
  uint64_t next() { return has(1) ? (left_--, *words_++) : 0; }

 private:
  const uint64_t* words_;
  uint64_t left_;
};

Size read_size(Reader& reader) {
  const uint64_t x = reader.next(), y = reader.next(), z = reader.next();
  return Size{x, y, z};
}

bool read_step(Reader& reader, Plan::Step& step) {
  switch (step.what) {
    case Plan::What::kCopy:
      step.array = reader.next();
      return true;
    case Plan::What::kMade: {
      const uint64_t type = reader.next(), dimensions = reader.next();
      if (type >= std::size(kTypes) || !reader.has(dimensions)) return false;
      step.dtype = kTypes[type];
      for (uint64_t i = 0; i < dimensions; i++) step.sizes.push_back(static_cast<int64_t>(reader.next()));
      return true;
    }
    case Plan::What::kLaunch: {
      step.pipeline = reinterpret_cast<const Pipeline*>(reader.next());
      step.groups = read_size(reader);
      step.group_size = read_size(reader);
      const uint64_t fills = reader.next();
      if (!step.pipeline || fills > kMostBuffers || !reader.has(3 * fills)) return false;
      for (uint64_t i = 0; i < fills; i++) {
        const uint64_t kind = reader.next(), value = reader.next(), length = reader.next();
        step.fills.push_back({kind, value, length});
      }
      return true;
    }
    default:
      return false;
  }
}

Object buffer_of(const at::Tensor& tensor) {  // on MPS the data of a storage is its MTLBuffer
  return const_cast<void*>(tensor.storage().data());
}

// 16 bytes for what has no memory; never freed, as torch may end before this library.
const at::Tensor& nothing_on(c10::Device device) {
  static const at::Tensor& made = *new at::Tensor(at::zeros({16}, at::TensorOptions(device).dtype(at::kByte)));
  return made;
}

Argument argument_of(const Plan::Fill& fill, const std::vector<at::Tensor>& arrays, c10::Device device) {
  if (fill.kind == 2) return {kBytes, fill.value, 0, fill.length};
  const bool is_there = fill.kind == 1 && arrays.at(fill.value).defined() && arrays.at(fill.value).numel();
  const at::Tensor& tensor = is_there ? arrays.at(fill.value) : nothing_on(device);
  return {kBuffer, reinterpret_cast<uint64_t>(buffer_of(tensor)),
          static_cast<uint64_t>(tensor.storage_offset()) * tensor.element_size(), tensor.nbytes()};
}

// Launches that wait to be encoded together, with their arguments.
class Waiting {
 public:
  void add(const Plan::Step& step, const std::vector<at::Tensor>& arrays, c10::Device device) {
    arguments_.emplace_back();
    for (const Plan::Fill& fill : step.fills) arguments_.back().push_back(argument_of(fill, arrays, device));
    launches_.push_back({step.pipeline, arguments_.back().data(), arguments_.back().size(), step.groups,
                         step.group_size});
  }
  void flush() {
    char text[1024] = "";
    TORCH_CHECK(!encode(launches_.data(), launches_.size(), Error{text, sizeof(text)}), text);
    launches_.clear();
    arguments_.clear();
  }

 private:
  std::vector<std::vector<Argument>> arguments_;  // moving a vector leaves its data where it is
  std::vector<Launch> launches_;
};

template <typename Value>
void put(std::string& key, const Value& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename List>
void put_list(std::string& key, const List& list) {
  put(key, list.size());
  for (size_t i = 0; i < list.size(); i++) put(key, list[i]);
}

bool put_tensor(std::string& key, const torch::jit::Stack& stack, uint64_t first, uint64_t at) {
  const at::Tensor& tensor = stack[at].toTensor();
  if (!tensor.defined()) {
    key += 'n';
    return true;
  }
  uint64_t same = first;  // one tensor given twice is another call than two
  while (same < at && !(stack[same].isTensor() && stack[same].toTensor().is_same(tensor))) same++;
  if (tensor.is_neg() || tensor.is_conj()) return false;
  key += 't';
  put(key, same - first);
  put(key, tensor.scalar_type());
  put(key, tensor.device().index());
  put(key, tensor.is_contiguous());
  put_list(key, tensor.sizes());
  return true;
}

}  // namespace

std::shared_ptr<const Plan> read_plan(const uint64_t* words, uint64_t count) {
  auto plan = std::make_shared<Plan>();
  Reader reader(words, count);
  while (reader.has(1)) {
    Plan::Step step{};
    step.what = static_cast<Plan::What>(reader.next());
    if (step.what == Plan::What::kResults) {
      const uint64_t results = reader.next();
      if (!reader.has(results)) return nullptr;
      for (uint64_t i = 0; i < results; i++) plan->results.push_back(reader.next());
      return plan;
    }
    if (!read_step(reader, step)) return nullptr;
    plan->steps.push_back(std::move(step));
  }
  return nullptr;  // it ends with its results
}

void repeat(const Plan& plan, torch::jit::Stack& stack, uint64_t count) {
  std::vector<at::Tensor> arrays;
  std::optional<c10::Device> device;
  for (const c10::IValue& value : torch::jit::last(stack, count)) {
    arrays.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
    if (arrays.back().defined() && !device) device = arrays.back().device();
  }
  TORCH_CHECK(device, "metalcore: a plan of an op without tensors cannot be repeated");
  Waiting waiting;
  for (const Plan::Step& step : plan.steps) {
    if (step.what == Plan::What::kMade) {
      arrays.push_back(at::empty(step.sizes, at::TensorOptions(*device).dtype(step.dtype)));
    } else if (step.what == Plan::What::kCopy) {
      waiting.flush();  // torch encodes the copy now, behind what was launched before it
      arrays.push_back(arrays.at(step.array).contiguous());
    } else {
      waiting.add(step, arrays, *device);
    }
  }
  waiting.flush();
  torch::jit::drop(stack, count);
  for (uint64_t result : plan.results) stack.emplace_back(arrays.at(result));
}

std::string key_of(const std::string& name, const torch::jit::Stack& stack, uint64_t count) {
  std::string key = name;
  const uint64_t first = stack.size() - count;
  for (uint64_t at = first; at < stack.size(); at++) {
    const c10::IValue& value = stack[at];
    if (value.isTensor()) {
      if (!put_tensor(key, stack, first, at)) return "";
    } else if (value.isNone()) {
      key += 'n';
    } else if (value.isBool()) {
      key += value.toBool() ? 'T' : 'F';
    } else if (value.isInt()) {
      key += 'i';
      put(key, value.toInt());
    } else if (value.isDouble()) {
      key += 'd';
      put(key, value.toDouble());
    } else if (value.isString()) {
      key += 's';
      put_list(key, value.toStringRef());
    } else if (value.isIntList()) {
      key += 'I';
      put_list(key, value.toIntVector());
    } else if (value.isDoubleList()) {
      key += 'D';
      put_list(key, value.toDoubleVector());
    } else if (value.isBoolList()) {
      key += 'B';
      for (bool each : value.toBoolList()) key += each ? 'T' : 'F';
      key += ';';
    } else {
      return "";
    }
  }
  return key;
}

}  // namespace metalcore

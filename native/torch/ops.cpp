// The ops of metalcore as torch knows them, from the schemas that their declarations have (native/tools/schemas.py), and
// their kernels for MPS: a plan that was noted is repeated, for another one Python is asked.
#include <torch/library.h>

#include <atomic>
#include <map>
#include <mutex>

#include "plans.h"
#include "schemas.inc"

// The tests build this file for the CPU, under a namespace of its own.
#ifndef METALCORE_NAMESPACE
#define METALCORE_NAMESPACE metalcore
#define METALCORE_PLANS metalcore_plan
#define METALCORE_KEY MPS
#endif
#define METALCORE_WORD(name) #name
#define METALCORE_TEXT(name) METALCORE_WORD(name)

namespace metalcore {
namespace {

constexpr size_t kMostPlans = 2048;

struct Known {
  std::mutex lock;
  std::map<std::string, std::shared_ptr<const Plan>> plans;
};
Known& known() {
  static Known& made = *new Known();  // never freed: threads may still call at the end of the process
  return made;
}

std::atomic<bool> is_watched = false;  // metalcore.explain() is open: every plan runs in Python
thread_local std::shared_ptr<const Plan>* noting = nullptr;

std::shared_ptr<const Plan> find(const std::string& key) {
  if (key.empty() || is_watched) return nullptr;
  std::lock_guard<std::mutex> locked(known().lock);
  auto found = known().plans.find(key);
  return found == known().plans.end() ? nullptr : found->second;
}

void keep(const std::string& key, std::shared_ptr<const Plan> plan) {
  std::lock_guard<std::mutex> locked(known().lock);
  if (known().plans.size() >= kMostPlans) known().plans.clear();
  known().plans[key] = std::move(plan);
}

void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const uint64_t count = op.schema().arguments().size();
  const std::string name = op.schema().name();
  const std::string key = key_of(name, *stack, count);
  if (auto plan = find(key)) return repeat(*plan, *stack, count);
  const std::string planner = METALCORE_TEXT(METALCORE_PLANS) + name.substr(name.find("::"));
  auto handle = c10::Dispatcher::singleton().findSchema({planner, ""});
  TORCH_CHECK(handle && handle->hasKernelForDispatchKey(c10::DispatchKey::METALCORE_KEY), name,
              ": no call of these shapes, dtypes and numbers was made before, and its plan is Python's: import "
              "metalcore.torch.register in this process first");
  std::shared_ptr<const Plan> noted;
  auto* before = noting;
  noting = &noted;
  try {
    handle->callBoxed(stack);
  } catch (...) {
    noting = before;
    throw;
  }
  noting = before;
  if (noted && !key.empty()) keep(key, noted);
}

struct Declared {
  const char* name;
  const char* schema;
};
constexpr Declared kOps[] = {METALCORE_OPS};

}  // namespace
}  // namespace metalcore

TORCH_LIBRARY_FRAGMENT(METALCORE_NAMESPACE, m) {
  for (const auto& op : metalcore::kOps)
    m.def((std::string(op.name) + op.schema).c_str(),
          {at::Tag::pt2_compliant_tag, at::Tag::needs_fixed_stride_order});
}

TORCH_LIBRARY_FRAGMENT(METALCORE_PLANS, m) {
  for (const auto& op : metalcore::kOps) m.def((std::string(op.name) + op.schema).c_str());
}

TORCH_LIBRARY_IMPL(METALCORE_NAMESPACE, METALCORE_KEY, m) {
  for (const auto& op : metalcore::kOps) m.impl(op.name, torch::CppFunction::makeFromBoxedFunction<&metalcore::run>());
}

#define METALCORE_API extern "C" __attribute__((visibility("default")))

// The schema of an op that is registered here; null for one that is not.
METALCORE_API const char* metalcore_schema(const char* name) {
  for (const auto& op : metalcore::kOps)
    if (std::string(name) == op.name) return op.schema;
  return nullptr;
}

// What the plan that Python runs for a call in this thread has done. 1 where the words make no sense.
METALCORE_API int metalcore_note(const uint64_t* words, uint64_t count) {
  auto plan = metalcore::read_plan(words, count);
  if (plan && metalcore::noting) *metalcore::noting = plan;
  return !plan;
}

METALCORE_API void metalcore_watch(int is_watched) { metalcore::is_watched = is_watched != 0; }

METALCORE_API uint64_t metalcore_known_plans() {
  std::lock_guard<std::mutex> locked(metalcore::known().lock);
  return metalcore::known().plans.size();
}

// A recorded plan: launches on arrays that are counted, inputs first, then what the plan makes. It knows neither MLX nor
// Python; the engine's launch comes as an address, so that nothing is linked to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace metalcore {

// mc_call of the engine's runtime.
using Launch = int (*)(const void* plan, const uint64_t* packed, uint32_t threads, void* regions, uint64_t n_regions,
                       uint64_t limit);

// A Python function by its number: 1, or anything else and the words of an error.
using Python = int (*)(uint64_t number, void* const* arrays, uint64_t n, char* words, uint64_t room);

struct Functions {
  Launch launch;
  Python python;
};

// Numbers that no plan has any more. A plan may end on any thread; Python asks for them when it adds a number.
struct Dead {
  uint64_t number;
  Dead* next;
};
inline std::atomic<Dead*> dead{nullptr};

inline void add_dead(Dead* one) {
  one->next = dead.load();
  while (!dead.compare_exchange_weak(one->next, one)) {
  }
}

inline uint64_t take_dead() {
  Dead* all = dead.exchange(nullptr);
  if (!all) return 0;
  for (Dead *one = all->next, *next; one; one = next) next = one->next, add_dead(one);
  uint64_t number = all->number;
  delete all;
  return number;
}

struct Slot {  // of a launch on a GPU: a buffer's index is its place
  enum Kind : int64_t { NOTHING, INPUT, OUTPUT, NUMBER };
  int64_t kind;
  uint64_t value;  // which array, or the number's bytes
  uint64_t size;   // of a number
};

struct Step {
  // Errors: rows of {1 or 0, position, value}; info: 0 where all is well; metal: a launch on a GPU; python: all of it.
  enum Kind : int64_t { LAUNCH, ERRORS, INFO, METAL, PYTHON };
  int64_t kind;
  std::vector<uint64_t> plan;   // a copy of the engine's struct
  std::vector<uint64_t> words;  // packed arguments but for addresses of arrays
  std::vector<std::pair<uint32_t, uint32_t>> addresses;  // word, array
  uint32_t array;
  uint64_t rows;
  std::string text;  // of the error, with % for the position and @ for the value; the kernel's name
  std::string library, source;
  std::vector<Slot> slots;
  uint64_t groups[3], group[3];
};

struct Made {
  std::vector<int> shape;
  int dtype;
  uint64_t bytes;
};

struct Plan {
  std::string name;
  std::vector<uint64_t> inputs;  // bytes of each
  std::vector<Made> made;
  std::vector<Step> steps;
  std::vector<uint32_t> results;
  bool is_metal = false, has_checks = false;
  uint64_t python = 0;  // the number of a function

  Plan() = default;
  Plan(const Plan&) = delete;
  ~Plan() {
    if (python) add_dead(new Dead{python, nullptr});
  }
};

struct Failure {
  int64_t step, status, position, value;
  std::string words;  // of Python
};

// 0 and the failure where a launch did not end well or a kernel noted an error.
inline bool run(const Plan& plan, void* const* arrays, const Functions& functions, uint32_t threads, Failure* failure) {
  for (size_t at = 0; at < plan.steps.size(); at++) {
    const Step& step = plan.steps[at];
    *failure = {static_cast<int64_t>(at), 0, 0, 0, {}};
    if (step.kind == Step::LAUNCH) {
      alignas(16) uint64_t few[128];
      std::vector<uint64_t> many;  // malloc aligns to 16 bytes
      uint64_t* words = few;
      if (step.words.size() > 128) many.resize(step.words.size()), words = many.data();
      std::memcpy(words, step.words.data(), 8 * step.words.size());
      for (auto [word, array] : step.addresses) words[word] = reinterpret_cast<uintptr_t>(arrays[array]);
      failure->status = functions.launch(step.plan.data(), words, threads, nullptr, 0, 0);
      if (failure->status) return false;
    } else if (step.kind == Step::PYTHON) {
      char words[4096] = "its Python function could not be called";
      uint64_t n = plan.inputs.size() + plan.made.size();
      if (functions.python(plan.python, arrays, n, words, sizeof words) == 1) continue;
      failure->words = words;
      return false;
    } else if (step.kind == Step::ERRORS) {
      auto rows = static_cast<const int64_t*>(arrays[step.array]);
      for (uint64_t i = 0; i < step.rows; i++) {
        if (!rows[3 * i]) continue;
        failure->position = rows[3 * i + 1], failure->value = rows[3 * i + 2];
        return false;
      }
    } else {
      auto info = static_cast<const int32_t*>(arrays[step.array]);
      for (uint64_t i = 0; i < step.rows; i++) {
        if (!info[i]) continue;
        failure->position = static_cast<int64_t>(i), failure->value = info[i];
        return false;
      }
    }
  }
  return true;
}

// As std::to_string, which for this type no library of a Mac is shown to have.
inline std::string shown(int64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "%lld", static_cast<long long>(number));
  return text;
}

inline std::string words_of(const Plan& plan, const Failure& failure) {
  const Step& step = plan.steps[failure.step];
  if (!failure.words.empty()) return failure.words;
  if (failure.status)
    return "metalcore." + plan.name + ": a kernel could not be run: the runtime answered " +
           shown(failure.status);
  std::string found;
  for (char c : step.text) {
    if (c == '%')
      found += shown(failure.position);
    else if (c == '@')
      found += shown(failure.value);
    else
      found += c;
  }
  return found;
}

}  // namespace metalcore

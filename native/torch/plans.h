// What a plan of metalcore/ops did, noted by Python (runtimes/mps_replay.py) and repeated here: for the same shapes,
// dtypes and numbers an op launches the same kernels.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/stack.h>

#include <memory>
#include <string>
#include <vector>

#include "launch.h"

namespace metalcore {

struct Plan {
  enum class What : uint64_t { kCopy = 1, kMade = 2, kLaunch = 3, kResults = 4 };
  struct Fill {
    uint64_t kind;   // 0 nothing, 1 an array, 2 the bytes of a number
    uint64_t value;  // which array, or the bytes
    uint64_t length;
  };
  // Arrays are counted: arguments first, then what is made, in its order.
  struct Step {
    What what;
    uint64_t array;  // of a copy
    at::ScalarType dtype;
    std::vector<int64_t> sizes;
    const Pipeline* pipeline;
    Size groups, group_size;
    std::vector<Fill> fills;
  };
  std::vector<Step> steps;
  std::vector<uint64_t> results;
};

// From the words that Python packs; null where they make no sense.
std::shared_ptr<const Plan> read_plan(const uint64_t* words, uint64_t count);

// The last `count` values of the stack are the arguments; results take their place.
void repeat(const Plan& plan, torch::jit::Stack& stack, uint64_t count);

// All that a plan may depend on, as bytes; empty where a call cannot be remembered.
std::string key_of(const std::string& name, const torch::jit::Stack& stack, uint64_t count);

}  // namespace metalcore

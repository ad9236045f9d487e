// Sums, maxima and minima over a threadgroup: within each simdgroup first, then over the simdgroups' results.
// `partial` holds 32 values and may be used again after the call.
#pragma once
#include <metal_stdlib>
using namespace metal;

struct Lane {
  uint lane;    // thread_index_in_simdgroup
  uint group;   // simdgroup_index_in_threadgroup
  uint groups;  // simdgroups_per_threadgroup
};

// What is done to the values of all threads, and what changes nothing in it.
struct GroupSum {
  static float of_simdgroup(float x) { return simd_sum(x); }
  static float neutral() { return 0.0f; }
};
struct GroupMax {
  static float of_simdgroup(float x) { return simd_max(x); }
  static float neutral() { return -INFINITY; }
};
struct GroupLeast {
  static uint of_simdgroup(uint x) { return simd_min(x); }
  static uint neutral() { return 0xffffffffu; }
};

template <typename F, typename T>
inline T group_reduce(T value, threadgroup T* partial, Lane at) {
  value = F::of_simdgroup(value);
  if (at.groups == 1) {
    return value;
  }
  if (at.lane == 0) {
    partial[at.group] = value;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  value = F::of_simdgroup(at.lane < at.groups ? partial[at.lane] : F::neutral());
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return value;
}

inline float group_sum(float value, threadgroup float* partial, Lane at) {
  return group_reduce<GroupSum>(value, partial, at);
}
inline float group_max(float value, threadgroup float* partial, Lane at) {
  return group_reduce<GroupMax>(value, partial, at);
}
inline uint group_least(uint value, threadgroup uint* partial, Lane at) {
  return group_reduce<GroupLeast>(value, partial, at);
}

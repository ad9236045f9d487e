// Sums and maxima over a threadgroup: within each simdgroup first, then over the simdgroups' results.
// `partial` holds 32 values and may be used again after the call.
#pragma once
#include <metal_stdlib>
using namespace metal;

struct Lane {
  uint lane;    // thread_index_in_simdgroup
  uint group;   // simdgroup_index_in_threadgroup
  uint groups;  // simdgroups_per_threadgroup
};

inline float group_sum(float value, threadgroup float* partial, Lane at) {
  value = simd_sum(value);
  if (at.groups == 1) {
    return value;
  }
  if (at.lane == 0) {
    partial[at.group] = value;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  value = simd_sum(at.lane < at.groups ? partial[at.lane] : 0.0f);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return value;
}

inline float group_max(float value, threadgroup float* partial, Lane at) {
  value = simd_max(value);
  if (at.groups == 1) {
    return value;
  }
  if (at.lane == 0) {
    partial[at.group] = value;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  value = simd_max(at.lane < at.groups ? partial[at.lane] : -INFINITY);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return value;
}

// Products of reflectors as one: H_0 ... H_k-1 = I - V T V^T with an upper triangular T (Schreiber, Van Loan). A
// threadgroup has a panel of up to 32 columns: a lane has a column, simdgroups share the rows.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant constexpr uint LANES = 32;
constant constexpr uint SIMDGROUPS = 32;  // at most

// Where a thread is, and what it needs to exchange with those of other simdgroups.
struct Team {
  threadgroup float* partial;
  uint lane;
  uint group;
  uint groups;

  float finish(float value, bool is_max) const {
    if (groups == 1) {
      simdgroup_barrier(mem_flags::mem_device);
      return value;
    }
    partial[group * LANES + lane] = value;
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    float whole = partial[lane];
    for (uint g = 1; g < groups; g++) {
      const float other = partial[g * LANES + lane];
      whole = is_max ? max(whole, other) : whole + other;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return whole;
  }
};

// T from tau, one a lane, and the products v_l^T v_j at [j * LANES + l]: column j is -tau_j T (V^T v_j), with tau_j on the
// diagonal. One simdgroup does it; a lane has a row. `room` is LANES x LANES.
template <typename T>
inline void write_factor(device T* to, threadgroup float* room, threadgroup const float* products, float own_tau,
                         uint reflectors, uint lane) {
  for (uint j = 0; j < LANES; j++) {
    const float tau = simd_broadcast(own_tau, ushort(j));
    float sum = 0;
    for (uint l = 0; l < j && j < reflectors; l++) {
      sum += room[l * LANES + lane] * products[j * LANES + l];
    }
    room[j * LANES + lane] = j >= reflectors || lane > j ? 0.0f : lane < j ? -tau * sum : tau;
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = 0; i < LANES; i++) {
    to[i * LANES + lane] = room[lane * LANES + i];
  }
}

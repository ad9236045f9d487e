// C = A B, or C = S - A B, with sums in float-float (Dot2: precise_reduce.metal) or without error. B may be a pair
// B + B_low. A thread has one column of C, a simdgroup takes 32 columns and `each` rows. B comes in panels of 32 columns
// that lie one after the other, padded with zeros: rows of a wide matrix would fall on few lines of the cache.
#include "float_float.h"
#include "exact_accumulator.h"

constant bool is_residual [[function_constant(0)]];  // C = S - A B
constant bool has_pair [[function_constant(1)]];     // B is a pair
constant bool has_low [[function_constant(2)]];      // C is stored as a pair
constant bool is_plain [[function_constant(3)]];     // float alone

constant constexpr uint TERMS = 32;

// B in panels.
template <typename T>
[[kernel]] void precise_pack(
    device const T* b [[buffer(0)]],
    device T* panels [[buffer(1)]],
    constant long& inner [[buffer(2)]],
    constant long& columns [[buffer(3)]],
    constant long& each [[buffer(4)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 groups [[threadgroups_per_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const ulong batch = group.z, first = ulong(group.y) * each;
  const uint j = group.x * 32 + lane;
  device const T* from = b + batch * ulong(inner * columns);
  device T* to = panels + (batch * groups.x + group.x) * ulong(inner * 32);
  for (ulong k = first; k < min(first + each, ulong(inner)); k++) {
    T value = T(0);
    if (j < uint(columns)) {
      value = from[k * columns + j];
    }
    to[k * 32 + lane] = value;
  }
}

// Matrices of a batch begin `step` elements after the one before.
template <typename T>
[[kernel]] void precise_matmul(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device const T* b_low [[buffer(2)]],
    device const T* start [[buffer(3)]],
    device float* high [[buffer(4)]],
    device float* low [[buffer(5)]],
    constant long& rows [[buffer(6)]],
    constant long& inner [[buffer(7)]],
    constant long& columns [[buffer(8)]],
    constant long& a_step [[buffer(9)]],
    constant long& b_step [[buffer(10)]],
    constant long& each [[buffer(11)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  const long batch = group.z, first = (long(group.y) * simdgroups + simdgroup) * each;
  const uint n = uint(columns), depth = uint(inner), j = group.x * 32 + lane;
  device const T* left = a + batch * a_step;
  device const T* right = b + batch * b_step + long(group.x) * inner * 32;
  device const T* right_low = b_low + batch * b_step + long(group.x) * inner * 32;
  for (long i = first; i < min(first + each, rows); i++) {
    device const T* row = left + i * inner;
    const ulong at = ulong((batch * rows + i) * columns);
    float value = 0.0f, error = 0.0f;
    if (is_residual && j < n) {
      value = float(start[at + j]);
    }
    for (uint begin = 0; begin < depth; begin += TERMS) {
      const uint end = min(depth, begin + TERMS);
      for (uint k = begin; k < end; k++) {
        const float p = is_residual ? -float(row[k]) : float(row[k]);
        const float q = float(right[k * 32 + lane]);
        if (is_plain) {
          value = fma(p, q, value);
        } else {
          const FloatFloat product = two_product(p, q), next = two_sum(value, product.high);
          value = next.high;
          error += next.low + product.low;
          if (has_pair) {
            error = fma(p, float(right_low[k * 32 + lane]), error);
          }
        }
      }
      if (!is_plain) {
        const FloatFloat pair = finite_pair(value, error);
        value = pair.high;
        error = pair.low;
      }
    }
    if (j < n) {
      high[at + j] = value;
      if (has_low) {
        low[at + j] = error;
      }
    }
  }
}

template <typename T>
[[kernel]] void precise_matmul_exact(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device const T* b_low [[buffer(2)]],
    device const T* start [[buffer(3)]],
    device float* high [[buffer(4)]],
    device float* low [[buffer(5)]],
    constant long& rows [[buffer(6)]],
    constant long& inner [[buffer(7)]],
    constant long& columns [[buffer(8)]],
    constant long& a_step [[buffer(9)]],
    constant long& b_step [[buffer(10)]],
    constant long& each [[buffer(11)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  const long batch = group.z, first = (long(group.y) * simdgroups + simdgroup) * each;
  const uint n = uint(columns), depth = uint(inner), j = group.x * 32 + lane;
  const uint flip = is_residual ? 0x80000000 : 0, one = float_bits(1.0f);
  const uint terms = BIN_PRODUCTS / 2;
  device const T* left = a + batch * a_step;
  device const T* right = b + batch * b_step + long(group.x) * inner * 32;
  device const T* right_low = b_low + batch * b_step + long(group.x) * inner * 32;
  for (long i = first; i < min(first + each, rows); i++) {
    device const T* row = left + i * inner;
    const ulong at = ulong((batch * rows + i) * columns);
    long bins[BINS];
    uint limbs[LIMBS];
    clear_limbs(limbs);
    uint top = 0, found = 0, begins = 0;
    if (is_residual && j < n) {
      begins = float_bits(start[at + j]);
    }
    for (uint begin = 0; begin < max(depth, 1u); begin += terms) {
      const uint end = min(depth, begin + terms);
      clear_bins(bins);
      if (is_residual && begin == 0) {
        top = add_product(bins, begins, one);
      }
      for (uint k = begin; k < end; k++) {
        const uint p = float_bits(row[k]) ^ flip;
        top = max(top, add_product(bins, p, float_bits(right[k * 32 + lane])));
        if (has_pair) {
          top = max(top, add_product(bins, p, float_bits(right_low[k * 32 + lane])));
        }
      }
      carry_bins(bins, limbs);
    }
    if (simd_max(top) == 255) {
      found = is_residual ? special_product(begins, one) : 0;
      for (uint k = 0; k < depth; k++) {
        found |= special_product(float_bits(row[k]) ^ flip, float_bits(right[k * 32 + lane]));
      }
    }
    const uint bits = found != 0 ? special_bits(found) : rounded_limbs(limbs);
    uint rest = 0;
    if (has_low) {
      const bool is_finite = (bits & 0x7fffffff) < INFINITE;
      subtract_float(limbs, is_finite ? bits : 0);
      rest = is_finite ? rounded_limbs(limbs) : 0;
    }
    if (j < n) {
      high[at + j] = as_type<float>(bits);
      if (has_low) {
        low[at + j] = as_type<float>(rest);
      }
    }
  }
}

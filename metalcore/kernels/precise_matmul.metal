// C = A B, or C = S - A B, with sums in float-float (Dot2: precise_reduce.metal) or without error. B may be a pair
// B + B_low. A thread has one column of C, so rows of B are read along memory; a simdgroup takes `each` rows of C.
#include "float_float.h"
#include "exact_accumulator.h"

constant bool is_residual [[function_constant(0)]];  // C = S - A B
constant bool has_pair [[function_constant(1)]];     // B is a pair
constant bool has_low [[function_constant(2)]];      // C is stored as a pair
constant bool is_plain [[function_constant(3)]];     // float alone

constant constexpr uint TERMS = 32;

inline FloatFloat finite_pair(float value, float error) {
  const FloatFloat sum = two_sum(value, error);
  return {isfinite(value) ? sum.high : value, isfinite(value) ? sum.low : 0.0f};
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
  device const T* right = b + batch * b_step;
  device const T* right_low = b_low + batch * b_step;
  for (long i = first; i < min(first + each, rows); i++) {
    device const T* row = left + i * inner;
    const ulong at = ulong((batch * rows + i) * columns);
    if (j < n) {
      float value = is_residual ? float(start[at + j]) : 0.0f, error = 0.0f;
      for (uint begin = 0; begin < depth; begin += TERMS) {
        const uint end = min(depth, begin + TERMS);
        for (uint k = begin; k < end; k++) {
          const float p = is_residual ? -float(row[k]) : float(row[k]);
          const float q = float(right[ulong(k) * n + j]);
          if (is_plain) {
            value = fma(p, q, value);
          } else {
            const FloatFloat product = two_product(p, q), next = two_sum(value, product.high);
            value = next.high;
            error += next.low + product.low;
            if (has_pair) {
              error = fma(p, float(right_low[ulong(k) * n + j]), error);
            }
          }
        }
        if (!is_plain) {
          const FloatFloat pair = finite_pair(value, error);
          value = pair.high;
          error = pair.low;
        }
      }
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
  device const T* right = b + batch * b_step;
  device const T* right_low = b_low + batch * b_step;
  for (long i = first; i < min(first + each, rows); i++) {
    device const T* row = left + i * inner;
    const ulong at = ulong((batch * rows + i) * columns);
    long bins[BINS];
    uint limbs[LIMBS];
    if (j < n) {
      clear_limbs(limbs);
      uint top = 0, found = 0;
      for (uint begin = 0; begin < max(depth, 1u); begin += terms) {
        const uint end = min(depth, begin + terms);
        clear_bins(bins);
        if (is_residual && begin == 0) {
          top = max(top, add_product(bins, float_bits(start[at + j]), one));
        }
        for (uint k = begin; k < end; k++) {
          const uint p = float_bits(row[k]) ^ flip;
          top = max(top, add_product(bins, p, float_bits(right[ulong(k) * n + j])));
          if (has_pair) {
            top = max(top, add_product(bins, p, float_bits(right_low[ulong(k) * n + j])));
          }
        }
        carry_bins(bins, limbs);
      }
      if (simd_max(top) == 255) {
        found = is_residual ? special_product(float_bits(start[at + j]), one) : 0;
        for (uint k = 0; k < depth; k++) {
          found |= special_product(float_bits(row[k]) ^ flip, float_bits(right[ulong(k) * n + j]));
        }
      }
      const uint bits = found != 0 ? special_bits(found) : rounded_limbs(limbs);
      high[at + j] = as_type<float>(bits);
      if (has_low) {
        const bool is_finite = (bits & 0x7fffffff) < INFINITE;
        subtract_float(limbs, is_finite ? bits : 0);
        low[at + j] = is_finite ? as_type<float>(rounded_limbs(limbs)) : 0.0f;
      }
    }
  }
}

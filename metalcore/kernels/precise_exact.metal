// The sum of x_k * y_k without error, rounded once. A simdgroup takes a block of one sum: its threads have a number of
// their own each (exact_accumulator.h), which are added at the end. Blocks write their number to `partial`, and
// `precise_exact_merge` adds those; where a sum is one block, it is rounded at once.
#include "exact_accumulator.h"

constant bool is_sum [[function_constant(0)]];   // y is 1
constant bool is_norm [[function_constant(1)]];  // y is x, and the square root is taken
constant bool has_low [[function_constant(2)]];  // what is rounded off goes to `low`
constant bool is_split [[function_constant(3)]];
constant bool is_residual [[function_constant(4)]];  // start - the sum
constant bool has_pair [[function_constant(5)]];     // y is a pair

constant constexpr uint SPECIAL = LIMBS;         // where a partial number has what is not finite: three counts
constant constexpr uint PARTIAL = LIMBS + 3;

// Lane i has limb i of a sum, with carries of its own above 32 bits; the three lanes after them count what is special.
inline void store_rounded(ulong mine, device float* high, device float* low, ulong at, uint lane) {
  const uint lower = uint(mine), upper = uint(mine >> 32);
  uint limbs[LIMBS];
  ulong carry = 0;
  for (uint i = 0; i < LIMBS; i++) {
    carry += simd_broadcast(lower, ushort(i)) + (ulong(simd_broadcast(upper, ushort(i))) << 32);
    limbs[i] = uint(carry);
    carry >>= 32;
  }
  uint found = 0;
  for (uint i = 0; i < 3; i++) {
    found |= simd_broadcast(lower, ushort(SPECIAL + i)) != 0 ? 1u << i : 0;
  }
  uint bits = 0, rest = 0;
  if (found != 0) {
    bits = special_bits(found);
  } else if (!is_zero(limbs)) {
    const Leading value = leading(limbs);
    bits = is_norm ? rounded_bits(root_of(value)) : rounded_limbs(limbs);
    if (has_low && (bits & 0x7fffffff) < INFINITE) {
      subtract_float(limbs, bits);
      rest = rounded_limbs(limbs);
    }
  }
  if (lane == 0) {
    high[at] = as_type<float>(bits);
    if (has_low) {
      low[at] = as_type<float>(rest);
    }
  }
}

// Sum r is over row r / y_rows of x, and of y row r % y_rows of the same batch; a batch has x_rows and y_rows rows, and
// begins `step` elements after the one before.
template <typename T>
[[kernel]] void precise_exact(
    device const T* x [[buffer(0)]],
    device const T* y [[buffer(1)]],
    device long* partial [[buffer(2)]],
    device float* high [[buffer(3)]],
    device float* low [[buffer(4)]],
    constant long& sums [[buffer(5)]],
    constant long& width [[buffer(6)]],
    constant long& block [[buffer(7)]],
    constant long& blocks [[buffer(8)]],
    constant long& x_rows [[buffer(9)]],
    constant long& y_rows [[buffer(10)]],
    constant long& x_step [[buffer(11)]],
    constant long& y_step [[buffer(12)]],
    device const T* y_low [[buffer(13)]],
    device const T* start [[buffer(14)]],
    uint group [[threadgroup_position_in_grid]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  const long place = long(group) * simdgroups + simdgroup;
  if (place >= sums * blocks) {
    return;
  }
  const long sum = is_split ? place / blocks : place, first = (is_split ? place % blocks : 0) * block;
  const long row = sum / y_rows, batch = row / x_rows;
  device const T* a = x + batch * x_step + (row % x_rows) * width + first;
  device const T* b = is_sum || is_norm ? a : y + batch * y_step + (sum % y_rows) * width + first;
  device const T* b_low = has_pair ? y_low + batch * y_step + (sum % y_rows) * width + first : b;
  const uint count = uint(min(block, width - first)), one = float_bits(1.0f), flip = is_residual ? 0x80000000 : 0;
  const uint terms = has_pair ? BIN_PRODUCTS / 2 : BIN_PRODUCTS;
  long bins[BINS];
  uint limbs[LIMBS];
  clear_limbs(limbs);
  uint top = 0, begins = 0;
  if (is_residual && first == 0) {
    begins = lane == 0 ? float_bits(start[sum]) : 0;
    clear_bins(bins);
    top = add_product(bins, begins, one);
    carry_bins(bins, limbs);
  }
  for (uint begin = 0; begin < count; begin += 32 * terms) {
    const uint end = min(count, begin + 32 * terms);
    clear_bins(bins);
    for (uint i = begin + lane; i < end; i += 32) {
      const uint p = float_bits(a[i]) ^ flip;
      top = max(top, add_product(bins, p, is_sum ? one : is_norm ? p : float_bits(b[i])));
      if (has_pair) {
        top = max(top, add_product(bins, p, float_bits(b_low[i])));
      }
    }
    carry_bins(bins, limbs);
  }
  uint found = 0;
  if (simd_max(top) == 255) {
    found = is_residual ? special_product(begins, one) : 0;
    for (uint i = lane; i < count; i += 32) {
      const uint p = float_bits(a[i]) ^ flip;
      found |= special_product(p, is_sum ? one : is_norm ? p : float_bits(b[i]));
    }
  }
  ulong mine = 0;
  for (uint i = 0; i < LIMBS; i++) {
    const ulong total = ulong(simd_sum(limbs[i] & 0xffff)) + (ulong(simd_sum(limbs[i] >> 16)) << 16);
    mine = lane == i ? total : mine;
  }
  for (uint i = 0; i < 3; i++) {
    const uint total = simd_sum((found >> i) & 1);
    mine = lane == SPECIAL + i ? total : mine;
  }
  if (!is_split) {
    store_rounded(mine, high, low, ulong(sum), lane);
  } else if (lane < PARTIAL) {
    partial[place * PARTIAL + lane] = long(mine);
  }
}

// A simdgroup adds the blocks of one sum: lane i limb i.
template <typename T>
[[kernel]] void precise_exact_merge(
    device const long* partial [[buffer(0)]],
    device T* high [[buffer(1)]],
    device T* low [[buffer(2)]],
    constant long& sums [[buffer(3)]],
    constant long& blocks [[buffer(4)]],
    uint group [[threadgroup_position_in_grid]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  const long sum = long(group) * simdgroups + simdgroup;
  if (sum >= sums) {
    return;
  }
  ulong mine = 0;
  if (lane < PARTIAL) {
    for (uint i = 0; i < uint(blocks); i++) {
      mine += ulong(partial[(sum * blocks + i) * PARTIAL + lane]);
    }
  }
  store_rounded(mine, high, low, ulong(sum), lane);
}

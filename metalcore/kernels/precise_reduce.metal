// Sums of x_k, of x_k * y_k (Dot2 of Ogita, Rump, Oishi 2005) and roots of sums of squares, as pairs of floats. The error
// of every product and of every addition is kept in a second sum; after 32 terms a thread puts its two sums in order,
// so that the second one stays small: the error of the pair is below n * 2^-46 times the sum of |x_k * y_k|.
// A norm is scaled by a power of two, so that no square overflows or is lost.
#include "float_float.h"

constant bool is_sum [[function_constant(0)]];    // y is 1
constant bool is_norm [[function_constant(1)]];   // y is x, and the square root is taken
constant bool has_low [[function_constant(2)]];   // the low half goes to `low`
constant bool is_split [[function_constant(3)]];  // a sum is several blocks
constant bool is_plain [[function_constant(4)]];  // float alone: no error is kept
constant bool is_residual [[function_constant(5)]];  // start - the sum
constant bool has_pair [[function_constant(6)]];     // y is a pair

constant constexpr uint TERMS = 32;

constant constexpr float NO_EXPONENT = -100000.0f;  // of a block of zeros

inline int exponent_of(float largest) {
  constexpr int most = numeric_limits<float>::max_exponent - 2;
  return largest > 0.0f && isfinite(largest) ? clamp(ilogb(largest), -most, most) : 0;
}

inline void store_pair(FloatFloat total, int exponent, device float* high, device float* low, ulong at, uint lane) {
  if (is_norm) {
    const FloatFloat root = isfinite(total.high) ? sqrt(total) : total;
    total = {ldexp(root.high, exponent), ldexp(root.low, exponent)};
  }
  if (lane == 0) {
    high[at] = total.high;
    if (has_low) {
      low[at] = isfinite(total.high) ? total.low : 0.0f;
    }
  }
}

// Which rows a sum is over: see precise_exact.metal.
template <typename T>
[[kernel]] void precise_reduce(
    device const T* x [[buffer(0)]],
    device const T* y [[buffer(1)]],
    device float* partial [[buffer(2)]],
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
  const uint count = uint(min(block, width - first));
  int exponent = 0;
  float scale = 1.0f;
  if (is_norm) {
    float largest = 0.0f;
    for (uint i = lane; i < count; i += 32) {
      largest = max(largest, abs(float(a[i])));
    }
    exponent = exponent_of(simd_max(largest));
    scale = ldexp(1.0f, -exponent);
  }
  float value = 0.0f, error = 0.0f;
  if (is_residual && first == 0) {
    value = lane == 0 ? float(start[sum]) : 0.0f;
  }
  for (uint begin = 0; begin < count; begin += 32 * TERMS) {
    const uint end = min(count, begin + 32 * TERMS);
    for (uint i = begin + lane; i < end; i += 32) {
      const float p = is_norm ? float(a[i]) * scale : is_residual ? -float(a[i]) : float(a[i]);
      const float q = is_norm ? p : is_sum ? 1.0f : float(b[i]);
      if (is_plain) {
        value = is_sum ? value + p : fma(p, q, value);
      } else if (is_sum) {
        const FloatFloat next = two_sum(value, p);
        value = next.high;
        error += next.low;
      } else {
        const FloatFloat product = two_product(p, q), next = two_sum(value, product.high);
        value = next.high;
        error += next.low + product.low;
        if (has_pair) {
          error = fma(p, float(b_low[i]), error);
        }
      }
    }
    if (!is_plain) {
      const FloatFloat pair = finite_pair(value, error);
      value = pair.high;
      error = pair.low;
    }
  }
  FloatFloat total = {value, error};
  if (is_plain) {
    total = {simd_sum(value), 0.0f};
  } else {
    total = simd_total(total);
  }
  if (!is_split) {
    store_pair(total, exponent, high, low, ulong(sum), lane);
  } else if (lane == 0) {
    partial[3 * place] = total.high;
    partial[3 * place + 1] = total.low;
    partial[3 * place + 2] = float(exponent);
  }
}

// A simdgroup adds the blocks of one sum.
template <typename T>
[[kernel]] void precise_reduce_merge(
    device const T* partial [[buffer(0)]],
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
  device const T* mine = partial + 3 * sum * blocks;
  float exponent = NO_EXPONENT;
  if (is_norm) {
    for (uint i = lane; i < uint(blocks); i += 32) {
      exponent = max(exponent, mine[3 * i] == 0.0f ? NO_EXPONENT : float(mine[3 * i + 2]));
    }
    exponent = simd_max(exponent);
  }
  FloatFloat total = {0.0f, 0.0f};
  for (uint i = lane; i < uint(blocks); i += 32) {
    FloatFloat next = {mine[3 * i], mine[3 * i + 1]};
    if (is_norm) {
      const int shift = 2 * int(mine[3 * i + 2] - exponent);
      next = {ldexp(next.high, shift), ldexp(next.low, shift)};
    }
    total = finite_sum(total, next);
  }
  store_pair(simd_total(total), int(exponent), high, low, ulong(sum), lane);
}

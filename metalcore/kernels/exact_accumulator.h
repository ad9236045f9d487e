// Sums of products of floats without any error: a number of 640 bits in two's complement whose lowest bit counts 2^-298,
// the smallest product. It is rounded once, at the end, so no order of the terms and no launch shape changes the result.
// A thread adds to 64 bins of 8 bits' distance, one for each range of exponents: a product has 48 bits and is shifted
// by up to 7, so a bin of 64 bits takes 252 of them before its carry must be passed on. Integers only: no rounding mode,
// no flush to zero and no fast math has a say.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant constexpr uint BINS = 64;
constant constexpr uint BIN_PRODUCTS = 252;
constant constexpr uint LIMBS = 20;       // of 32 bits: 554 bits for one product, the rest for up to 2^85 of them
constant constexpr int LOWEST = -298;     // exponent of the lowest bit
constant constexpr uint INFINITE = 0x7f800000;
constant constexpr uint NOT_A_NUMBER = 0x7fc00000;

template <typename T>
inline uint float_bits(T x) {
  return as_type<uint>(float(x));
}

inline uint exponent_bits(uint x) { return (x >> 23) & 255; }
inline uint significand(uint x) { return (x & 0x7fffff) | (exponent_bits(x) == 0 ? 0 : 0x800000); }

// Bins [first, end) and limbs of a thread get 0.
inline void clear_bins(thread long* bins) {
  for (uint i = 0; i < BINS; i++) {
    bins[i] = 0;
  }
}

inline void clear_limbs(thread uint* limbs) {
  for (uint i = 0; i < LIMBS; i++) {
    limbs[i] = 0;
  }
}

// x * y of two floats' bits; both are finite. Returns the larger exponent, 255 where one is infinite or NaN.
inline uint add_product(thread long* bins, uint x, uint y) {
  const uint e = exponent_bits(x), f = exponent_bits(y);
  const uint place = max(e, 1u) + max(f, 1u) - 2;
  const long sign = -long((x ^ y) >> 31);
  const long product = long((ulong(significand(x)) * ulong(significand(y))) << (place & 7));
  bins[place >> 3] += (product ^ sign) - sign;
  return max(e, f);
}

// limbs += bins.
inline void carry_bins(thread const long* bins, thread uint* limbs) {
  long carry = 0;
  for (uint i = 0; i < BINS / 4; i++) {
    carry += limbs[i];
    uint limb = 0;
    for (uint j = 0; j < 4; j++) {
      carry += bins[4 * i + j];
      limb |= uint(carry & 255) << (8 * j);
      carry >>= 8;
    }
    limbs[i] = limb;
  }
  for (uint i = BINS / 4; i < LIMBS; i++) {
    carry += limbs[i];
    limbs[i] = uint(carry);
    carry >>= 32;
  }
}

// What IEEE arithmetic makes of terms that are infinite or NaN; 0 where there are none.
constant constexpr uint HAS_PLUS = 1, HAS_MINUS = 2, HAS_NAN = 4;

inline uint special_product(uint x, uint y) {
  const uint a = x & 0x7fffffff, b = y & 0x7fffffff;
  if (a < INFINITE && b < INFINITE) {
    return 0;
  }
  if (a > INFINITE || b > INFINITE || a == 0 || b == 0) {
    return HAS_NAN;
  }
  return ((x ^ y) >> 31) != 0 ? HAS_MINUS : HAS_PLUS;
}

inline uint special_bits(uint found) {
  return (found & HAS_NAN) != 0 || found == (HAS_PLUS | HAS_MINUS) ? NOT_A_NUMBER
         : found == HAS_PLUS                                      ? INFINITE
                                                                  : INFINITE | 0x80000000;
}

// A magnitude: its first 64 bits with no zero in front, whether anything follows, and the exponent of the first bit.
struct Leading {
  ulong bits;
  bool has_more;
  int exponent;
};

inline bool is_negative(thread const uint* limbs) { return (limbs[LIMBS - 1] >> 31) != 0; }

// Of a number that is not 0.
inline Leading leading(thread const uint* limbs) {
  const uint flip = is_negative(limbs) ? 0xffffffff : 0;
  uint carry = flip & 1, before = 0, second = 0, rest = 0;     // the limbs below this one
  uint high = 0, middle = 0, low = 0, more = 0, at = 0;
  for (uint i = 0; i < LIMBS; i++) {
    const uint limb = (limbs[i] ^ flip) + carry;
    carry = carry != 0 && limb == 0 ? 1 : 0;
    const bool is_top = limb != 0;
    high = is_top ? limb : high;
    middle = is_top ? before : middle;
    low = is_top ? second : low;
    more = is_top ? rest : more;
    at = is_top ? i : at;
    rest |= second;
    second = before;
    before = limb;
  }
  const uint zeros = high == 0 ? 0 : clz(high);
  const ulong upper = (ulong(high) << 32) | middle;
  const ulong bits = (upper << zeros) | (ulong(low) >> (32 - zeros));
  return {bits, more != 0 || (low << zeros) != 0, int(32 * at + 31 - zeros) + LOWEST};
}

// The nearest float's bits, ties to even; subnormal numbers and an overflow to infinity included.
inline uint rounded_bits(Leading x) {
  const int beyond = max(0, -126 - x.exponent);
  const bool is_nothing = beyond > 24;  // below a quarter of the smallest number
  const uint shift = 40 + uint(min(beyond, 24));
  const ulong kept = (x.bits >> 1) >> (shift - 1), rest = x.bits << (64 - shift);
  const ulong half_way = 1ul << 63;
  const bool is_up = rest > half_way || (rest == half_way && (x.has_more || (kept & 1) != 0));
  const uint exponent = uint(max(x.exponent + 126, 0));
  const uint bits = (exponent << 23) + uint(kept) + (is_up ? 1 : 0);
  return is_nothing ? 0 : x.exponent > 127 ? INFINITE : min(bits, INFINITE);
}

inline bool is_zero(thread const uint* limbs) {
  uint any = 0;
  for (uint i = 0; i < LIMBS; i++) {
    any |= limbs[i];
  }
  return any == 0;
}

// A sum of 0 is +0; one that is too small for any float keeps its sign.
inline uint rounded_limbs(thread const uint* limbs) {
  return is_zero(limbs) ? 0 : rounded_bits(leading(limbs)) | (is_negative(limbs) ? 0x80000000 : 0);
}

// limbs -= a finite float, which is rounded off.
inline void subtract_float(thread uint* limbs, uint x) {
  const uint place = max(exponent_bits(x), 1u) - 1 + 149;
  const ulong shifted = ulong(significand(x)) << (place & 31);
  const uint at = place >> 5, flip = (x >> 31) != 0 ? 0 : 0xffffffff;  // add -x in two's complement
  ulong carry = flip & 1;
  for (uint i = 0; i < LIMBS; i++) {
    const uint word = i == at ? uint(shifted) : i == at + 1 ? uint(shifted >> 32) : 0;
    carry += ulong(limbs[i]) + (word ^ flip);
    limbs[i] = uint(carry);
    carry >>= 32;
  }
}

// floor(sqrt(n)) of a number of 63 or 64 bits.
inline uint root_of(ulong n) {
  uint root = uint(min(precise::sqrt(float(n)), 4294967040.0f));
  const long rest = long(n - ulong(root) * root);
  root += int(precise::divide(float(rest), 2.0f * float(root)));
  for (uint i = 0; i < 3; i++) {  // the estimate is off by one or two
    root -= ulong(root) * root > n ? 1 : 0;
  }
  for (uint i = 0; i < 3; i++) {
    root += root != 0xffffffff && ulong(root + 1) * (root + 1) <= n ? 1 : 0;
  }
  return root;
}

// The square root, as its leading 32 bits.
inline Leading root_of(Leading x) {
  const int unit = x.exponent - 63;
  const bool is_odd = (unit & 1) != 0;
  const ulong n = is_odd ? x.bits >> 1 : x.bits;
  const uint root = root_of(n);
  const bool has_more = x.has_more || (is_odd && (x.bits & 1) != 0) || ulong(root) * root != n;
  return {ulong(root) << 32, has_more, 31 + (unit + (is_odd ? 1 : 0)) / 2};
}

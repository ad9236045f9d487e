// Random bits (Threefry 2x32, 20 rounds), in the forms of MLX's random.metal, which its wheel does not bring: a union of
// a vector and bytes that is returned by value, and a vector from three values.
#include "mlx/backend/metal/kernels/utils.h"

constant constexpr uint32_t turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};

union Bits {
  uint2 words;
  uchar4 bytes[2];
};

Bits threefry(const thread uint2& key, uint2 count) {
  uint4 keys = {key.x, key.y, key.x ^ key.y ^ 0x1BD11BDAu};
  Bits b;
  b.words = count + keys.xy;
  for (int round = 0; round < 5; round++) {
    for (auto turn : turns[round % 2]) {
      b.words.x += b.words.y;
      b.words.y = rotate(b.words.y, turn) ^ b.words.x;
    }
    b.words.x += keys[(round + 1) % 3];
    b.words.y += keys[(round + 2) % 3] + round + 1;
  }
  return b;
}

// Each row of out has `length` bytes, of the key of its row; each thread makes eight of them.
[[kernel]] void random_bits(
    device const uint32_t* keys,
    device uchar* out,
    constant const uint& length,
    uint2 at [[thread_position_in_grid]]) {
  const uint2 key = uint2(keys[2 * at.y], keys[2 * at.y + 1]);
  Bits bits = threefry(key, uint2(at.x, at.x ^ 0x55u)), kept;
  kept = bits;
  out += size_t(at.y) * length;
  for (uint j = 0; j < 8; j++) {
    if (8 * at.x + j < length) out[8 * at.x + j] = kept.bytes[j / 4][j % 4];
  }
}

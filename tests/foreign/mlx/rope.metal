// Rotary embedding, in the forms of MLX's rope.metal: switches that are function constants, a position per batch in
// device memory, several heads a thread, and a function that kernels with other arguments share.
#include "instantiate.h"

constant bool forward [[function_constant(1)]];
constant bool traditional [[function_constant(2)]];
constant bool per_head [[function_constant(3)]];

template <typename T, typename IdxT, int N = 4>
void rotate_heads(
    const device T* in,
    device T* out,
    const device int* offsets,
    float frequency,
    const constant float& scale,
    const constant IdxT* strides,
    const constant int& heads,
    uint3 at,
    uint3 grid) {
  const int batch = at.z / ((heads + N - 1) / N), first = N * (at.z % ((heads + N - 1) / N));
  const float angle = scale * static_cast<float>(at.y + offsets[batch]) * frequency;
  const float c = metal::fast::cos(angle), s = forward ? metal::fast::sin(angle) : -metal::fast::sin(angle);
  for (int j = 0; j < N && first + j < heads; j++) {
    const IdxT row = per_head ? (IdxT(batch) * heads + first + j) * strides[0] + at.y * strides[1]
                              : batch * strides[0] + at.y * strides[1] + (first + j) * strides[2];
    const IdxT one = row + (traditional ? 2 * at.x : at.x), two = row + (traditional ? 2 * at.x + 1 : at.x + grid.x);
    const float a = static_cast<float>(in[one]), b = static_cast<float>(in[two]);
    out[one] = static_cast<T>(a * c - b * s);
    out[two] = static_cast<T>(a * s + b * c);
  }
}

template <typename T, typename IdxT>
[[kernel]] void rope(
    const device T* in [[buffer(0)]],
    device T* out [[buffer(1)]],
    const device int* offsets [[buffer(2)]],
    const constant float& scale [[buffer(3)]],
    const constant IdxT* strides [[buffer(4)]],
    const constant int& heads [[buffer(5)]],
    const constant float& base [[buffer(10)]],
    uint3 at [[thread_position_in_grid]],
    uint3 grid [[threads_per_grid]]) {
  const float d = static_cast<float>(at.x) / static_cast<float>(grid.x);
  rotate_heads<T, IdxT>(in, out, offsets, metal::exp2(-d * base), scale, strides, heads, at, grid);
}

template <typename T, typename IdxT>
[[kernel]] void rope_freqs(
    const device T* in [[buffer(0)]],
    device T* out [[buffer(1)]],
    const device int* offsets [[buffer(2)]],
    const constant float& scale [[buffer(3)]],
    const constant IdxT* strides [[buffer(4)]],
    const constant int& heads [[buffer(5)]],
    const device float* periods [[buffer(10)]],
    uint3 at [[thread_position_in_grid]],
    uint3 grid [[threads_per_grid]]) {
  rotate_heads<T, IdxT>(in, out, offsets, 1.0f / periods[at.x], scale, strides, heads, at, grid);
}

#define make_rope(name, type)                                        \
  instantiate_kernel("rope_" #name, rope, type, int32_t)             \
  instantiate_kernel("rope_large_" #name, rope, type, int64_t)       \
  instantiate_kernel("rope_freqs_" #name, rope_freqs, type, int32_t)

each_float(make_rope)

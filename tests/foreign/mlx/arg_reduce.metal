// argmin and argmax along an axis, in the forms of MLX's arg_reduce.metal, which its wheel does not bring: a struct of an
// index and a value in threadgroup memory, operations as template arguments, values in constant memory.
#include "instantiate.h"

template <typename T>
struct Best {
  uint index;
  T value;
};

template <typename T>
struct Smaller {
  static constexpr constant T first = Limits<T>::max;
  bool wins(thread const Best<T>& a, thread const Best<T>& b) const {
    return a.value < b.value || (a.value == b.value && a.index < b.index);
  }
};

template <typename T>
struct Larger {
  static constexpr constant T first = Limits<T>::min;
  bool wins(thread const Best<T>& a, thread const Best<T>& b) const {
    return a.value > b.value || (a.value == b.value && a.index < b.index);
  }
};

template <typename T>
Best<T> lower(Best<T> b, ushort distance) {
  return Best<T>{simd_shuffle_down(b.index, distance), simd_shuffle_down(b.value, distance)};
}

template <typename T, typename Op, int N = 4>
[[kernel]] void arg_of(
    device const T* in [[buffer(0)]],
    device uint* out [[buffer(1)]],
    const constant int* shape [[buffer(2)]],
    const constant int64_t* strides [[buffer(3)]],
    const constant int& ndim [[buffer(4)]],
    const constant int64_t& axis_stride [[buffer(5)]],
    const constant uint& axis_size [[buffer(6)]],
    uint3 gid [[thread_position_in_grid]],
    uint3 grid [[threads_per_grid]],
    uint3 lid [[thread_position_in_threadgroup]],
    uint3 group [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd [[simdgroup_index_in_threadgroup]]) {
  Op op;
  const uint row = gid.y + grid.y * gid.z;
  const auto start = elem_to_loc(row, shape, strides, ndim);
  threadgroup Best<T> bests[32];
  Best<T> best{0, Op::first};
  for (uint from = lid.x * N; from < axis_size; from += group.x * N) {
    T values[N];
    for (int j = 0; j < N; j++) values[j] = from + j < axis_size ? in[start + (from + j) * axis_stride] : T(Op::first);
    for (int j = 0; j < N; j++) {
      Best<T> other{from + j, values[j]};
      if (from + j < axis_size && op.wins(other, best)) best = other;
    }
  }
  for (uint distance = 16; distance > 0; distance /= 2) {
    Best<T> other = lower(best, distance);
    if (op.wins(other, best)) best = other;
  }
  if (lane == 0) bests[simd] = best;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd != 0) return;
  const uint count = (group.x + 31) / 32;
  best = bests[lane < count ? lane : 0];
  for (uint distance = 16; distance > 0; distance /= 2) {
    Best<T> other = lower(best, distance);
    if (op.wins(other, best)) best = other;
  }
  if (lane == 0) out[row] = best.index;
}

#define make_arg(name, type)                                      \
  instantiate_kernel("argmin_" #name, arg_of, type, Smaller<type>) \
  instantiate_kernel("argmax_" #name, arg_of, type, Larger<type>)

make_arg(float32, float) make_arg(bfloat16, bfloat16_t) make_arg(int32, int32_t) make_arg(int64, int64_t) make_arg(uint8, uint8_t)

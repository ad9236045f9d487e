#include <metal_stdlib>

#include <c10/metal/reduction_utils.h>

using namespace metal;

// Sum, product, largest, smallest of a threadgroup, one group a row.
template <typename T>
kernel void row_reduce(
    const device T* x [[buffer(0)]], device float* out [[buffer(1)]], uint i [[thread_position_in_threadgroup]],
    uint size [[threads_per_threadgroup]], uint row [[threadgroup_position_in_grid]]) {
  threadgroup c10::metal::opmath_t<T> wide[32];
  threadgroup T same[32];
  T value = x[row * size + i];
  float sum = c10::metal::threadgroup_sum(wide, c10::metal::opmath_t<T>(value), i, size);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float product = c10::metal::threadgroup_prod(wide, c10::metal::opmath_t<T>(value), i, size);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float largest = c10::metal::threadgroup_max(same, value, i, size);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float smallest = c10::metal::threadgroup_min(same, value, i, size);
  if (i == 0) {
    out[row * 4] = sum;
    out[row * 4 + 1] = product;
    out[row * 4 + 2] = largest;
    out[row * 4 + 3] = smallest;
  }
}

template [[host_name("row_reduce_float32")]] kernel void row_reduce<float>(
    const device float*, device float*, uint, uint, uint);
template [[host_name("row_reduce_float16")]] kernel void row_reduce<half>(
    const device half*, device float*, uint, uint, uint);
template [[host_name("row_reduce_bfloat16")]] kernel void row_reduce<bfloat>(
    const device bfloat*, device float*, uint, uint, uint);

// 64-bit sums in a simdgroup, and the place of the largest element.
kernel void simd_functions(
    const device long* x [[buffer(0)]], const device float* y [[buffer(1)]], device long* sum [[buffer(2)]],
    device ushort* place [[buffer(3)]], uint i [[thread_position_in_grid]]) {
  long total = c10::metal::simd_sum(x[i]);
  long top = c10::metal::simd_max(x[i]);
  auto best = c10::metal::simd_argmax(y[i]);
  if (i == 0) {
    sum[0] = total;
    sum[1] = top;
    place[0] = best.second;
  }
}

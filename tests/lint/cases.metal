// Each line that says `expect: rule` must be found, and nothing else: the other code is what rules must be quiet about.
#include <metal_stdlib>
using namespace metal;

constant bool has_bias [[function_constant(0)]];
constant int width [[function_constant(1)]];

// Initialisers of threadgroup variables.
kernel void initialised_once(device float* x [[buffer(0)]], uint lid [[thread_position_in_threadgroup]]) {
  threadgroup float table[4] = {1, 2, 3, 4}, scale = 2;
  for (uint i = 0; i < 4; i++) x[lid] += table[i] * scale;
}

kernel void initialised_for_a_loop(device float* x [[buffer(0)]], uint lid [[thread_position_in_threadgroup]]) {
  threadgroup atomic_uint* none = nullptr;
  threadgroup uint counts[4] __attribute__((aligned(16))) = {0};  // expect: threadgroup-initialiser
  threadgroup uint n{};  // expect: threadgroup-initialiser
  for (uint i = 0; i < 4; i++) {
    if (lid == 0 && none == nullptr) counts[i] += 1, n++;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[lid] += counts[3 - i] + n;
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// Barriers.
kernel void barrier_in_loop(device float* x [[buffer(0)]], constant uint& n [[buffer(1)]], uint lid [[thread_position_in_threadgroup]]) {
  threadgroup float s[32];
  for (uint i = lid; i < n; i += 32) {
    s[lid] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);  // expect: divergent-barrier
    x[i] = s[lid ^ 1];
  }
}

kernel void barrier_in_uniform_loop(device float* x [[buffer(0)]], constant uint& n [[buffer(1)]], uint lid [[thread_position_in_threadgroup]]) {
  threadgroup float s[32];
  for (uint start = 0; start < n; start += 32) {
    if (start + lid < n) s[lid] = x[start + lid];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (start + lid < n) x[start + lid] = s[lid ^ 1];
    threadgroup_barrier(mem_flags::mem_none);
  }
}

kernel void barrier_by_group(device float* x [[buffer(0)]], constant uint& n [[buffer(1)]], uint group [[threadgroup_position_in_grid]], uint lid [[thread_position_in_threadgroup]]) {
  threadgroup float s[32];
  if (group >= n) return;
  s[lid] = x[lid];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (s[0] > 0) {  // all threads read the same element
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[lid] = s[31 - lid];
  }
}

inline float exchange(float v, threadgroup float* s, uint lid) {
  s[lid] = v;
  threadgroup_barrier(mem_flags::mem_threadgroup);  // expect: divergent-barrier
  return s[lid ^ 1];
}

kernel void barrier_in_helper(device float* x [[buffer(0)]], uint lid [[thread_position_in_threadgroup]]) {
  threadgroup float s[32];
  if (lid < 8) x[lid] = exchange(x[lid], s, lid);
}

kernel void barrier_of_simdgroup(device float* x [[buffer(0)]], uint lane [[thread_index_in_simdgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup float s[64];
  if (simdgroup == 0) {
    s[lane] = x[lane];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    x[lane] = s[lane ^ 1];
  }
  if (lane < 4) {
    simdgroup_barrier(mem_flags::mem_threadgroup);  // expect: divergent-barrier
    x[lane] += s[lane];
  }
}

// Flags.
kernel void device_fence(device float* x [[buffer(0)]], uint lid [[thread_position_in_threadgroup]]) {
  x[lid] = lid;
  threadgroup_barrier(mem_flags::mem_threadgroup);  // expect: barrier-flags
  x[lid + 64] = x[lid ^ 1];
}

kernel void own_elements(device float* x [[buffer(0)]], constant uint& n [[buffer(1)]], uint lid [[thread_position_in_threadgroup]]) {
  for (uint i = lid; i < n; i += 64) x[i] = i;
  threadgroup_barrier(mem_flags::mem_none);
  for (uint i = lid; i < n; i += 64) x[i] *= 2;
}

kernel void threadgroup_as_device(device float* x [[buffer(0)]], threadgroup float* s [[threadgroup(0)]], uint lid [[thread_position_in_threadgroup]]) {
  s[lid] = x[lid];
  threadgroup_barrier(mem_flags::mem_device);  // expect: barrier-flags
  x[lid] = s[lid ^ 1];
}

// Reductions.
kernel void row_sum(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant uint& n [[buffer(2)]], uint lid [[thread_position_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  float sum = 0;
  for (uint i = lid; i < n; i += threads) sum += x[i];
  sum = simd_sum(sum);  // expect: uncombined-simd-reduction
  for (uint i = lid; i < n; i += threads) y[i] = x[i] / sum;
}

kernel void row_sum_of_32(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant uint& n [[buffer(2)]], uint lid [[thread_position_in_threadgroup]]) {
  float sum = 0;
  for (uint i = lid; i < n; i += 32) sum += x[i];
  sum = simd_sum(sum);
  if (lid == 0) y[0] = sum;
}

kernel void sum_with_atomics(device const float* x [[buffer(0)]], device atomic_float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  const float sum = simd_sum(x[i]);
  if (simd_is_first()) atomic_fetch_add_explicit(y, sum, memory_order_relaxed);
}

// Vectors.
kernel void scaled_index(device float4* x [[buffer(0)]], constant uint& n [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  if (i * 4 >= n) return;  // expect: vector-without-tail
  x[i] = x[i] * 2.0f;
}

kernel void whole_vectors(device float4* x [[buffer(0)]], constant uint& n [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  if (i < n) x[i] = x[i] * 2.0f;
}

// Integers.
kernel void known_divisors(device uint* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] = x[i] / 7 + x[i] % uint(width);
}

kernel void three_sizes(device float* x [[buffer(0)]], constant uint& rows [[buffer(1)]], constant uint& columns [[buffer(2)]], uint3 at [[thread_position_in_grid]]) {
  x[at.z * rows * columns + at.y * columns + at.x] = 0;  // expect: int32-index
}

kernel void small_products(device float* x [[buffer(0)]], constant int& columns [[buffer(1)]], uint lid [[thread_position_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]]) {
  x[int(lid) * columns + int(lane) * 3] = 0;
}

// Sums.
kernel void bfloat_sum(device const bfloat* x [[buffer(0)]], device bfloat* y [[buffer(1)]], constant uint& n [[buffer(2)]]) {
  bfloat sum = 0;
  for (uint i = 0; i < n; ++i) {
    sum = sum + x[i];  // expect: half-accumulator
  }
  y[0] = sum;
}

kernel void few_halves(device const half* x [[buffer(0)]], device half* y [[buffer(1)]]) {
  half sum = 0, largest = 0;
  for (uint i = 0; i < 4; ++i) sum += x[i];
  for (uint i = 0; i < 400; ++i) largest = max(largest, x[i]);
  y[0] = has_bias ? sum : largest;
}

kernel void kahan(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant uint& n [[buffer(2)]]) {
  float sum = 0, lost = 0;
  for (uint i = 0; i < n; ++i) {
    const float term = x[i] - lost;
    const float total = sum + term;
    lost = (total - sum) - term;  // expect: float-float-fast-math
    sum = total;
  }
  y[0] = sum;
}

kernel void two_product(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  const float a = x[3 * i], b = x[3 * i + 1];
  const float p = a * b;
  x[3 * i] = p;
  x[3 * i + 2] = fma(a, b, -p);  // expect: float-float-fast-math
}

kernel void plain_sums(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  const float a = x[i], b = x[i + 1];
  x[i] = (a + b) - (a - b) + fma(a, b, -b);
}

// Private arrays.
kernel void unrolled(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float values[4];
  for (uint j = 0; j < 4; ++j) values[j] = x[4 * i + j];
  for (uint j = 0; j < 4; ++j) x[4 * i + j] = values[3 - j];
}

kernel void histogram(device uint* x [[buffer(0)]], constant uint& n [[buffer(1)]]) {
  uint bins[16] = {0};
  for (uint i = 0; i < n; ++i) bins[x[i] & 15] += 1;  // expect: dynamic-private-array
  for (uint i = 0; i < 16; ++i) x[i] = bins[i];
}

// Parameters.
kernel void switched(device float* x [[buffer(0)]], device const float* bias [[buffer(1), function_constant(has_bias)]], [[maybe_unused]] constant uint& n [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  if (has_bias) x[i] += bias[i];
}

template <typename T>
kernel void unused_in_template(device T* x [[buffer(0)]], constant uint& n [[buffer(1)]]) {  // expect: unused-parameter
  x[0] = T(1);
}
template [[host_name("unused_f16")]] kernel void unused_in_template<half>(device half*, constant uint&);
template [[host_name("unused_bf16")]] kernel void unused_in_template<bfloat>(device bfloat*, constant uint&);

// 16-bit floats.
bfloat simd_shuffle_xor(bfloat v, ushort mask) {
  return as_type<bfloat>(metal::simd_shuffle_xor(as_type<ushort>(v), mask));
}

kernel void own_shuffle(device bfloat* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] = simd_shuffle_xor(x[i], ushort(1));
  x[i + 1] = simd_shuffle_up(x[i], ushort(1));  // expect: bfloat-shuffle
}

template <typename T>
T half_of(T v) {
  const T factor = v > T(1) ? T(0.5) : 0.25f;  // expect: implicit-bfloat
  T integer = 2;
  integer += 1.0f;
  return v * factor + integer;
}

kernel void conversions(device bfloat* x [[buffer(0)]], device half* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  x[i] = half_of(x[i]);
  x[i + 1] = 0.5f * float(x[i]);  // expect: implicit-bfloat
  y[i] = half_of(y[i]) + half(1e-9f);  // expect: half-literal
  y[i + 1] = 0.5f;
}

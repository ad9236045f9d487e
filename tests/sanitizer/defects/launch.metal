// Launches that Metal drops without a word or refuses: the host must say so before.
#include <metal_stdlib>
using namespace metal;

// from: MLX, one-pass attention: 1,024 threads are launched, the pipeline's own limit is 832, the output stays zero and nobody is told
// expect: LaunchError
// launch: threads=1024 group_size=1024 y=float32[1024]:0
// fixed launch: threads=1024 group_size=832 y=float32[1024]:0
[[max_total_threads_per_threadgroup(832)]] kernel void more_threads_than_the_kernel_allows(
    device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = 1;
}

// from: candle, argsort: a row of 2,048 is sorted by one threadgroup of 2,048 threads, and the indices come back as zeros
// expect: LaunchError
// launch: threads=2048 group_size=2048 y=uint32[2048]:0
// fixed launch: threads=2048 group_size=1024 y=uint32[2048]:0
kernel void more_threads_than_metal_allows(device uint* y, uint i [[thread_position_in_grid]]) {
  y[i] = i;
}

// from: oMLX, gated delta kernel: 40,192 bytes of threadgroup memory, the limit is 32,768
// expect: LaunchError
// launch: threads=32 group_size=32 threadgroup_memory=40192 y=float32[32]:0
// fixed launch: threads=32 group_size=32 threadgroup_memory=32768 y=float32[32]:0
kernel void threadgroup_memory_over_the_limit(
    device float* y, threadgroup float* scratch [[threadgroup(0)]], uint t [[thread_index_in_threadgroup]]) {
  scratch[t] = 1;
  y[t] = scratch[t];
}

// Static and given memory together pass the limit.
// expect: LaunchError
// launch: threads=32 group_size=32 threadgroup_memory=20000 y=float32[32]:0
// fixed launch: threads=32 group_size=32 threadgroup_memory=8000 y=float32[32]:0
kernel void static_and_dynamic_memory(
    device float* y, threadgroup float* scratch [[threadgroup(0)]], uint t [[thread_index_in_threadgroup]]) {
  threadgroup float tile[4096];
  tile[t] = 1;
  scratch[t] = 2;
  y[t] = tile[t] + scratch[t];
}

// A group of 1,056 threads in three dimensions, each of them small.
// expect: LaunchError
// launch: threads=(33,8,4) group_size=(33,8,4) y=float32[1056]:0
// fixed launch: threads=(33,8,4) group_size=(33,8,2) y=float32[1056]:0
kernel void three_dimensions(device float* y, uint3 at [[thread_position_in_grid]]) {
  y[(at.z * 8 + at.y) * 33 + at.x] = 1;
}

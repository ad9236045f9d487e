"""One source for the tests of isolation: its kernels are compiled when they are asked for."""

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void axpy(device float* y, device const float* x, constant float& a, uint i [[thread_position_in_grid]]) {
  y[i] += a * x[i];
}
kernel void past(device float* x, uint i [[thread_position_in_grid]]) { x[i + 1] = 7; }
kernel void wild(device uint* x, device const ulong* at, uint i [[thread_position_in_grid]]) {
  x[i] = 9;
  device uint* p = (device uint*)at[0];
  p[i] = 1;
}
kernel void forever(device uint* x, device const uint* stop, uint i [[thread_position_in_grid]]) {
  x[i] = 9;
  while (((volatile device const uint*)stop)[0] == 0) {}
}
kernel void gather(device float* y, device const float* constant* tables, uint i [[thread_position_in_grid]]) {
  y[i] = tables[0][i] + tables[1][i];
}
kernel void scatter(device float* constant* tables, uint i [[thread_position_in_grid]]) { tables[i & 1][i] = i; }
kernel void shift(device float* y, device const float* x, uint i [[thread_position_in_grid]]) { y[i] = x[i]; }
kernel void sum(device float* y, device const float* x, threadgroup float* s [[threadgroup(0)]],
                uint i [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) { float t = 0; for (uint j = 0; j < n; j++) t += s[j]; y[0] = t; }
}
kernel void racy(device int* x, uint i [[thread_position_in_grid]]) { x[0] = i; }
// metalcore: requires(n <= 8, "the table has eight rows")
kernel void declared(device float* x, constant uint& n, uint i [[thread_position_in_grid]]) { x[i] = n; }
constant int scale [[function_constant(0)]];
kernel void scaled(device int* x, uint i [[thread_position_in_grid]]) { x[i] *= scale; }
"""

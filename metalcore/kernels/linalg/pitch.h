// Rows of what kernels keep for themselves lie a multiple of 32 apart: every simdgroup finds all of its 32 numbers, and a
// CPU needs no mask.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant constexpr uint WIDTH = 32;

inline uint pitch_of(uint n) {
  return (n + WIDTH - 1) / WIDTH * WIDTH;
}

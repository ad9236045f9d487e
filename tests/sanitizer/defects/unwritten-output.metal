// Bodies for metal_kernel: parts of the output are never written, and the caller gets what was there.

// The grid covers 48 of 64 elements.
// also: unwritten-output
// expect: unwritten-output
// launch: grid=48 threadgroup=32 x=float32[64] -> y=float32[64]
// fixed launch: grid=64 threadgroup=32 x=float32[64] -> y=float32[64]
// body grid_too_small
uint i = thread_position_in_grid.x;
y[i] = x[i];
// end

// The last element is left out.
// also: unwritten-output
// expect: unwritten-output
// launch: grid=64 threadgroup=32 x=float32[64] -> y=float32[64]
// body last_element
uint i = thread_position_in_grid.x;
if (fixed || i + 1 < 64) y[i] = x[i];
// end

// Elements that fail the test are not written as 0.
// also: unwritten-output
// expect: unwritten-output
// launch: grid=64 threadgroup=32 x=float32[64] -> y=float32[64]
// body only_where_positive
uint i = thread_position_in_grid.x;
if (x[i] > 10) y[i] = x[i];
else if (fixed) y[i] = 0;
// end

// Four elements a thread, and 62 elements: the tail has no loop.
// also: unwritten-output
// expect: unwritten-output
// launch: grid=16 threadgroup=16 x=float32[62] -> y=float32[62]
// body no_tail_of_the_vector
uint i = thread_position_in_grid.x * 4;
if (i + 4 <= 62) {
  for (uint j = 0; j < 4; ++j) y[i + j] = x[i + j];
} else if (fixed) {
  for (uint j = i; j < 62; ++j) y[j] = x[j];
}
// end

// The second of two outputs is forgotten: no line of the kernel writes it.
// also: unwritten-output
// expect: unwritten-output
// launch: grid=32 threadgroup=32 x=float32[32] -> y=float32[32] index=int32[32]
// body second_output
uint i = thread_position_in_grid.x;
y[i] = x[i];
if (is_fixed) index[i] = int(i);
// end

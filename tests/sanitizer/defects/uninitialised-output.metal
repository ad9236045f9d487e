// Bodies for metal_kernel: the outputs are new memory, and the kernel reads them before it wrote them.

// Adds to an output that nothing has set to zero.
// launch: grid=64 threadgroup=32 x=float32[64] -> y=float32[64]
// body adds_to_the_output
uint i = thread_position_in_grid.x;
if (fixed) y[i] = 0;
y[i] += x[i];  // expect: uninitialised-output thread 0
// end

// from: MLX, metal_kernel: outputs are new memory, and a gradient summed with atomics starts from what is there; init_value was made for it
// launch: grid=64 threadgroup=32 x=float32[64] -> y=float32[1]
// fixed launch: grid=64 threadgroup=32 init_value=0 x=float32[64] -> y=float32[1]
// body atomic_sum
uint i = thread_position_in_grid.x;
atomic_fetch_add_explicit(&y[0], x[i], memory_order_relaxed);  // expect: uninitialised-output thread 0
// end

// A running sum reads the element before the first one that it wrote.
// launch: grid=1 threadgroup=1 x=float32[8] -> y=float32[8]
// body running_sum
if (fixed) y[0] = x[0];
for (uint i = 1; i < 8; ++i) {
  y[i] = y[i - 1] + x[i];  // expect: uninitialised-output thread 0
}
if (!fixed) y[0] = x[0];
// end

// The second output is scratch, and half of it is filled.
// launch: grid=32 threadgroup=32 x=float32[32] -> y=float32[32] scratch=float32[32]
// body half_filled_scratch
uint i = thread_position_in_grid.x;
if (fixed || i < 16) scratch[i] = x[i] * 2;
threadgroup_barrier(mem_flags::mem_device);
y[i] = scratch[i];  // expect: uninitialised-output thread 16
// end

// The maximum with what was there before.
// launch: grid=32 threadgroup=32 x=float32[32] -> y=float32[32]
// body maximum_with_the_output
uint i = thread_position_in_grid.x;
y[i] = fixed ? x[i] : max(y[i], x[i]);  // expect: uninitialised-output thread 0
// end

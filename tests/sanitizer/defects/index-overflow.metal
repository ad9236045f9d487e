// 32-bit index arithmetic that wraps: the row that is meant lies past 2^31 elements, the one that is read does not.
#include <metal_stdlib>
using namespace metal;

// from: MLX, matrix-vector kernel: the row offset row * leading dimension is an int32 product (12347 x 174000)
// launch: threads=32 group_size=32 rows=int32[32]:12347 x=float32[64] y=float32[32]:0 ld=174000
kernel void row_times_width(
    constant bool& fixed, device const int* rows, device const float* x, device float* y, constant int& ld,
    uint i [[thread_position_in_grid]]) {
  int row = rows[i];
  if (fixed && long(row) * ld >= 64) return;
  y[i] = x[row * ld];  // expect: index-overflow; may: out-of-bounds
}

// from: llama.cpp, batched matrix product: the offset of a batch's output, im * N * M, is 32-bit (attention scores at long context)
// launch: threads=32 group_size=32 dst=float32[64]:0 ne0=131072 ne1=512 im=40
kernel void batch_offset(
    constant bool& fixed,
    device float* dst, constant int& ne0, constant int& ne1, constant int& im, uint i [[thread_position_in_grid]]) {
  if (fixed && long(im) * ne1 * ne0 >= 64) return;
  device float* batch = dst + im * ne1 * ne0;  // expect: index-overflow; may: out-of-bounds
  batch[i] = 1;  // or
}

// The wrapped index lands inside of the buffer: nothing crashes, the wrong row is read.
// launch: threads=32 group_size=32 x=float32[64] y=float32[32]:0 row=65536 width=65536
kernel void wraps_into_the_buffer(
    constant bool& fixed, device const float* x, device float* y, constant int& row, constant int& width,
    uint i [[thread_position_in_grid]]) {
  if (fixed && long(row) * width >= 64) return;
  y[i] = x[row * width + int(i)];  // expect: index-overflow
}

// Unsigned: past 2^32 elements, and inside of the buffer again.
// launch: threads=32 group_size=32 x=float32[64] y=float32[32]:0 row=4194304 width=1024
kernel void unsigned_product(
    constant bool& fixed, device const float* x, device float* y, constant uint& row, constant uint& width,
    uint i [[thread_position_in_grid]]) {
  if (fixed && ulong(row) * width >= 64) return;
  y[i] = x[row * width + i];  // expect: index-overflow
}

// A sum that wraps: the base offset is near 2^31.
// launch: threads=32 group_size=32 y=float32[64]:0 base=2147483640
kernel void base_plus_index(
    constant bool& fixed, device float* y, constant int& base, uint i [[thread_position_in_grid]]) {
  int at = int(i);
  if (fixed && long(base) + at >= 64) return;
  if (at < 8) return;
  y[base + at] = 1;  // expect: index-overflow; may: out-of-bounds
}

// The flat index of (batch, row, column) of a tensor past 2^31 elements.
// launch: threads=32 group_size=32 x=float32[64] y=float32[32]:0 batch=3 height=40000 width=30000
kernel void flat_index_of_three(
    constant bool& fixed,
    device const float* x, device float* y, constant int& batch, constant int& height, constant int& width,
    uint i [[thread_position_in_grid]]) {
  if (fixed && long(batch) * height * width >= 64) return;
  int flat = (batch * height) * width + int(i);  // expect: index-overflow; may: out-of-bounds
  y[i] = x[flat];  // or
}

// OpenCL 1.2 has no simdgroups: sums over a work-group go through local memory.
#define GROUP 256

float group_sum(float value, local float* partial) {
  const uint lid = get_local_id(0);
  partial[lid] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    if (lid < half_size) {
      partial[lid] += partial[lid + half_size];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return partial[0];
}

kernel void row_sum(global const float* x, global float* out, uint columns) {
  local float partial[GROUP];
  const uint lid = get_local_id(0);
  x += get_group_id(0) * columns;
  float sum = 0;
  for (uint i = lid; i < columns; i += GROUP) {
    sum += x[i];
  }
  sum = group_sum(sum, partial);
  if (lid == 0) {
    out[get_group_id(0)] = sum;
  }
}

kernel void chunk_sum(global const float* x, global float* out, uint count, uint chunk) {
  local float partial[GROUP];
  const uint lid = get_local_id(0);
  const uint start = get_group_id(0) * chunk;
  const uint end = min(start + chunk, count);
  float sum = 0;
  for (uint i = start + lid; i < end; i += GROUP) {
    sum += x[i];
  }
  sum = group_sum(sum, partial);
  if (lid == 0) {
    out[get_group_id(0)] = sum;
  }
}

// Hillis and Steele: add the value 1, 2, 4, ... places back.
kernel void row_scan(global const float* x, global float* y, uint columns) {
  local float shared[GROUP];
  const uint lid = get_local_id(0);
  x += get_group_id(0) * columns;
  y += get_group_id(0) * columns;
  float carry = 0;
  for (uint start = 0; start < columns; start += GROUP) {
    const uint i = start + lid;
    float running = i < columns ? x[i] : 0.0f;
    for (uint distance = 1; distance < GROUP; distance *= 2) {
      shared[lid] = running;
      barrier(CLK_LOCAL_MEM_FENCE);
      running += lid >= distance ? shared[lid - distance] : 0.0f;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    shared[lid] = running;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < columns) {
      y[i] = carry + running;
    }
    carry += shared[GROUP - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

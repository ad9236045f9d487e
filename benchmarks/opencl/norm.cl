// OpenCL 1.2 has no simdgroups: sums and maxima over a work-group halve an array in local memory.
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
  value = partial[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return value;
}

float group_max(float value, local float* partial) {
  const uint lid = get_local_id(0);
  partial[lid] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    if (lid < half_size) {
      partial[lid] = max(partial[lid], partial[lid + half_size]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  value = partial[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return value;
}

kernel void rms_norm(global const float* x, global const float* w, global float* y, uint columns, float eps) {
  local float partial[GROUP];
  const uint lid = get_local_id(0);
  x += get_group_id(0) * columns;
  y += get_group_id(0) * columns;
  float squares = 0;
  for (uint i = lid; i < columns; i += GROUP) {
    squares += x[i] * x[i];
  }
  const float scale = 1.0f / sqrt(group_sum(squares, partial) / columns + eps);
  for (uint i = lid; i < columns; i += GROUP) {
    y[i] = w[i] * (x[i] * scale);
  }
}

kernel void layer_norm(global const float* x, global const float* w, global const float* b, global float* y,
                       uint columns, float eps) {
  local float partial[GROUP];
  const uint lid = get_local_id(0);
  x += get_group_id(0) * columns;
  y += get_group_id(0) * columns;
  float sum = 0;
  for (uint i = lid; i < columns; i += GROUP) {
    sum += x[i];
  }
  const float mean = group_sum(sum, partial) / columns;
  float squares = 0;
  for (uint i = lid; i < columns; i += GROUP) {
    const float d = x[i] - mean;
    squares += d * d;
  }
  const float scale = 1.0f / sqrt(group_sum(squares, partial) / columns + eps);
  for (uint i = lid; i < columns; i += GROUP) {
    y[i] = (x[i] - mean) * scale * w[i] + b[i];
  }
}

kernel void softmax(global const float* x, global float* y, uint columns) {
  local float partial[GROUP];
  const uint lid = get_local_id(0);
  x += get_group_id(0) * columns;
  y += get_group_id(0) * columns;
  float largest = -INFINITY;
  for (uint i = lid; i < columns; i += GROUP) {
    largest = max(largest, x[i]);
  }
  largest = group_max(largest, partial);
  float sum = 0;
  for (uint i = lid; i < columns; i += GROUP) {
    const float e = exp(x[i] - largest);
    y[i] = e;
    sum += e;
  }
  const float scale = 1.0f / group_sum(sum, partial);
  for (uint i = lid; i < columns; i += GROUP) {
    y[i] *= scale;
  }
}

kernel void saxpy(global const float* x, global float* y, float a) {
  const uint i = get_global_id(0);
  y[i] = a * x[i] + y[i];
}

kernel void silu(global const float* x, global float* y) {
  const uint i = get_global_id(0);
  const float v = x[i];
  y[i] = v / (1.0f + exp(-v));
}

kernel void gelu(global const float* x, global float* y) {
  const uint i = get_global_id(0);
  const float v = x[i];
  const float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
  y[i] = 0.5f * v * (1.0f + tanh(inner));
}

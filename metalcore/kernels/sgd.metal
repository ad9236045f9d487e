// Stochastic gradient descent over many tensors in one launch, as torch.optim.SGD:
//   g = g + decay p,  b = momentum b + (1 - dampening) g,  p = p - lr b   (nesterov: p - lr (g + momentum b))
#include "parameter.h"

constant bool has_momentum [[function_constant(4)]];
constant bool nesterov [[function_constant(5)]];

// A row of settings: lr, decay, momentum, 1 - dampening (1 in the first step), loss scale.
template <typename T>
[[kernel]] void sgd(
    device T* constant* params [[buffer(0)]],
    device T* constant* grads [[buffer(1)]],
    device float* constant* masters [[buffer(2)]],
    device float* constant* momentum_buffers [[buffer(3)]],
    device const float* settings [[buffer(4)]],
    device const uint* keys [[buffer(5)]],
    device const long* chunks [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  const Chunk c = chunk_of(chunks, group);
  device const float* row = settings + 5 * c.tensor;
  const float lr = row[0], decay = row[1], momentum = row[2], share = row[3];
  const Parameter<T> p = parameter_of(c, params, grads, masters, keys, row[4]);
  device float* buffer = nullptr;
  if (has_momentum) {
    buffer = momentum_buffers[c.tensor] + c.first;
  }

  for (uint i = lid; i < c.count; i += group_size) {
    float g = p.gradient(i);
    const float value = p.value(i);
    if (decay != 0.0f) {
      g = fma(decay, value, g);
    }
    if (has_momentum) {
      const float b = fma(share, g, momentum * buffer[i]);
      buffer[i] = b;
      g = nesterov ? fma(momentum, b, g) : b;
    }
    p.update(i, fma(-lr, g, value));
  }
}

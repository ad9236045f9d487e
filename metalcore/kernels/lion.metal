// Lion over many tensors in one launch                                                          (arXiv:2302.06675)
//   p = (1 - lr decay) p - lr sign(b1 m + (1 - b1) g),  m = b2 m + (1 - b2) g
#include "parameter.h"

// A row of settings: 1 - lr * decay, lr, b1, 1 - b1, b2, 1 - b2, loss scale.
template <typename T>
[[kernel]] void lion(
    device T* constant* params [[buffer(0)]],
    device T* constant* grads [[buffer(1)]],
    device float* constant* masters [[buffer(2)]],
    device float* constant* exp_avgs [[buffer(3)]],
    device const float* settings [[buffer(4)]],
    device const uint* keys [[buffer(5)]],
    device const long* chunks [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  const Chunk c = chunk_of(chunks, group);
  device const float* row = settings + 7 * c.tensor;
  const float keep = row[0], lr = row[1], b1 = row[2], one_minus_b1 = row[3], b2 = row[4], one_minus_b2 = row[5];
  const Parameter<T> p = parameter_of(c, params, grads, masters, keys, row[6]);
  device float* m = exp_avgs[c.tensor] + c.first;

  for (uint i = lid; i < c.count; i += group_size) {
    const float g = p.gradient(i);
    const float mi = m[i];
    const float mixed = b1 * mi + one_minus_b1 * g;
    const float sign = mixed > 0.0f ? 1.0f : mixed < 0.0f ? -1.0f : mixed;  // 0 and NaN stay
    m[i] = b2 * mi + one_minus_b2 * g;
    p.update(i, p.value(i) * keep - lr * sign);
  }
}

// Adam and AdamW over many tensors in one launch     (arXiv:1412.6980, arXiv:1711.05101, amsgrad: arXiv:1904.09237)
//   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,  p = p - lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)
// What depends on the step t is computed on the host in double: in float, 1 - b2^t has 4 digits at first. With
// c = sqrt(1 - b2^t) the last term is (lr c / (1 - b1^t)) m / (sqrt(v) + eps c).
#include "parameter.h"

constant bool amsgrad [[function_constant(4)]];

// A row of settings: 1 - lr * decay (AdamW), decay (Adam), 1 - b1, b2, 1 - b2, lr c / (1 - b1^t), eps c, loss scale.
template <typename T>
[[kernel]] void adamw(
    device T* constant* params [[buffer(0)]],
    device T* constant* grads [[buffer(1)]],
    device float* constant* masters [[buffer(2)]],
    device float* constant* exp_avgs [[buffer(3)]],
    device float* constant* exp_avg_sqs [[buffer(4)]],
    device float* constant* max_exp_avg_sqs [[buffer(5)]],
    device const float* settings [[buffer(6)]],
    device const uint* keys [[buffer(7)]],
    device const long* chunks [[buffer(8)]],
    uint group [[threadgroup_position_in_grid]],
    uint lid [[thread_position_in_threadgroup]],
    uint group_size [[threads_per_threadgroup]]) {
  const Chunk c = chunk_of(chunks, group);
  device const float* row = settings + 8 * c.tensor;
  const float keep = row[0], decay = row[1], one_minus_b1 = row[2], b2 = row[3], one_minus_b2 = row[4];
  const float step_size = row[5], eps = row[6];
  const Parameter<T> p = parameter_of(c, params, grads, masters, keys, row[7]);
  device float* m = exp_avgs[c.tensor] + c.first;
  device float* v = exp_avg_sqs[c.tensor] + c.first;
  device float* most = amsgrad ? max_exp_avg_sqs[c.tensor] + c.first : v;

  for (uint i = lid; i < c.count; i += group_size) {
    float g = p.gradient(i);
    float value = p.value(i);
    if (decay != 0.0f) {
      g = fma(decay, value, g);
    }
    const float mi = fma(one_minus_b1, g - m[i], m[i]);
    float vi = fma(one_minus_b2 * g, g, b2 * v[i]);
    m[i] = mi;
    v[i] = vi;
    if (amsgrad) {
      const float before = most[i];
      vi = before > vi || before != before ? before : vi;  // a NaN stays, as with torch.maximum
      most[i] = vi;
    }
    value = value * keep - step_size * mi / (sqrt(vi) + eps);
    p.update(i, value);
  }
}

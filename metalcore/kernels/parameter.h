// What optimizers share: a parameter in T with its gradient, perhaps a float copy of it, and how it is rounded.
#pragma once
#include "rounding.h"
#include "tensors.h"

constant bool is_scaled [[function_constant(0)]];      // gradients are divided by the loss scale, in memory too
constant bool has_master [[function_constant(1)]];     // the float copy is what is updated
constant bool is_stochastic [[function_constant(2)]];  // rounded up or down by chance
constant bool maximize [[function_constant(3)]];

template <typename T>
struct Parameter {
  device T* values;
  device T* gradients;
  device float* masters;
  float scale;  // of the loss
  uint key;     // of the random numbers
  uint stream;
  long first;

  float gradient(uint i) const {
    float g = float(gradients[i]);
    if (is_scaled) {
      g /= scale;
      gradients[i] = T(g);
    }
    return maximize ? -g : g;
  }

  float value(uint i) const {
    if (has_master) {
      return masters[i];
    }
    return float(values[i]);
  }

  void update(uint i, float value) const {
    if (has_master) {
      masters[i] = value;
    }
    if (is_stochastic) {
      const ulong at = ulong(first) + i;
      values[i] = round_stochastic(value, random_bits(key, uint(at), stream ^ uint(at >> 32)), T());
    } else {
      values[i] = T(value);
    }
  }
};

// Chunk `c` of the parameters. `keys` has two numbers for each tensor.
template <typename T>
inline Parameter<T> parameter_of(
    Chunk c,
    device T* constant* params,
    device T* constant* grads,
    device float* constant* masters,
    device const uint* keys,
    float scale) {
  Parameter<T> found = {params[c.tensor] + c.first, grads[c.tensor] + c.first, nullptr, scale, 0, 0, c.first};
  if (has_master) {
    found.masters = masters[c.tensor] + c.first;
  }
  if (is_stochastic) {
    found.key = keys[2 * c.tensor];
    found.stream = keys[2 * c.tensor + 1];
  }
  return found;
}

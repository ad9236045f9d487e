#include "instantiate.h"
#include "mlx/backend/metal/kernels/steel/attn/kernels/steel_attention.h"

#define make_attention(name, type)                                                                \
  instantiate_kernel("attention_64_" #name, attention, type, 32, 32, 64, 64, 4, 1, bool, float)   \
  instantiate_kernel("attention_128_" #name, attention, type, 32, 16, 128, 128, 4, 1, type, float)

each_float(make_attention)

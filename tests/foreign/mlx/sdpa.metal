#include "instantiate.h"
#include "mlx/backend/metal/kernels/sdpa_blocked.h"
#include "mlx/backend/metal/kernels/sdpa_vector.h"

#define make_sdpa(name, type)                                                                       \
  instantiate_kernel("sdpa_vector_64_" #name, sdpa_vector, type, 64)                                \
  instantiate_kernel("sdpa_vector_192_128_" #name, sdpa_vector, type, 192, 128)                     \
  instantiate_kernel("sdpa_vector_2pass_1_" #name, sdpa_vector_2pass_1, type, 64)                   \
  instantiate_kernel("sdpa_vector_2pass_1_gqa_" #name, sdpa_vector_2pass_1_gqa, type, 64, 64, 8, 4) \
  instantiate_kernel("sdpa_vector_2pass_2_" #name, sdpa_vector_2pass_2, type, 64)                   \
  instantiate_kernel("sdpa_blocked_scale_copy_" #name, sdpa_blocked_scale_copy, type)               \
  instantiate_kernel("sdpa_blocked_causal_mask_" #name, sdpa_blocked_causal_mask, type)

each_float(make_sdpa)

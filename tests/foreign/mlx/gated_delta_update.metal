#include "instantiate.h"
#include "mlx/backend/metal/kernels/gated_delta_update.h"
#include "mlx/backend/metal/kernels/gated_delta_update_vjp.h"

#define make_gated_delta(name, type)                                                             \
  instantiate_kernel("gated_delta_chunk_" #name, gated_delta_fused_chunk, type, 32, 16, 1, 2, 8) \
  instantiate_kernel("gated_delta_seq_" #name, gated_delta_seq, type, 32, 16, 1, 2, 4)           \
  instantiate_kernel("gated_delta_vjp_" #name, gated_delta_vjp_seq, type, 32, 16, 1, 2, 4)

each_float(make_gated_delta)

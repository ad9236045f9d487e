#include "instantiate.h"
#include "mlx/backend/metal/kernels/gemv_masked.h"

#define make_masked(name, type)                                                                             \
  instantiate_kernel("gemv_masked_" #name, gemv_masked, type, bool, bool, 2, 2, 2, 16, 4, 4, false)         \
  instantiate_kernel("gemv_masked_nomask_" #name, gemv_masked, type, nomask_t, type, 2, 2, 2, 16, 4, 4, true) \
  instantiate_kernel("gemv_t_masked_" #name, gemv_t_masked, type, bool, bool, 1, 2, 8, 4, 4, 4, false)      \
  instantiate_kernel("gemv_t_masked_nomask_" #name, gemv_t_masked, type, nomask_t, type, 1, 2, 8, 4, 4, 4, true)

each_float(make_masked)

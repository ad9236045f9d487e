#include "instantiate.h"
#include "mlx/backend/metal/kernels/steel/gemm/gemm.h"
#include "mlx/backend/metal/kernels/steel/gemm/kernels/steel_gemm_gather.h"

#define make_gather(name, type)                                                                    \
  instantiate_kernel("gather_mm_rhs_nn_" #name, gather_mm_rhs, type, 16, 64, 16, 1, 2, false, false) \
  instantiate_kernel("gather_mm_rhs_nt_" #name, gather_mm_rhs, type, 16, 64, 16, 1, 2, false, true)  \
  instantiate_kernel("gather_mm_nn_" #name, gather_mm, type, 32, 32, 16, 2, 2, false, false)       \
  instantiate_kernel("gather_mm_nt_" #name, gather_mm, type, 32, 32, 16, 2, 2, false, true)

each_float(make_gather)

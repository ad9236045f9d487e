#include "instantiate.h"
#include "mlx/backend/metal/kernels/steel/gemm/gemm.h"
#include "mlx/backend/metal/kernels/steel/gemm/kernels/steel_gemm_fused.h"

#define make_gemm(name, type)                                                        \
  instantiate_kernel("gemm_nn_" #name, gemm, type, 32, 32, 16, 2, 2, false, false)   \
  instantiate_kernel("gemm_nt_" #name, gemm, type, 64, 32, 32, 2, 2, false, true)    \
  instantiate_kernel("gemm_tn_" #name, gemm, type, 64, 64, 16, 1, 2, true, false)    \
  instantiate_kernel("gemm_tt_" #name, gemm, type, 64, 64, 16, 2, 2, true, true)

each_float(make_gemm)

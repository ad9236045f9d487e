#include "instantiate.h"
#include "mlx/backend/metal/kernels/steel/gemm/gemm.h"
#include "mlx/backend/metal/kernels/steel/gemm/kernels/steel_gemm_masked.h"

#define make_masked(name, type)                                                                              \
  instantiate_kernel("masked_gemm_nn_" #name, block_masked_gemm, type, bool, bool, 32, 32, 16, 2, 2, false, false, true, true) \
  instantiate_kernel("masked_gemm_nt_" #name, block_masked_gemm, type, type, type, 32, 32, 16, 2, 2, false, true, false, false) \
  instantiate_kernel("masked_gemm_out_" #name, block_masked_gemm, type, bool, nomask_t, 64, 64, 16, 2, 2, false, false, false, true) \
  instantiate_kernel("masked_gemm_bool_" #name, block_masked_gemm, type, 32, 32, 16, 2, 2, false, true, false, false, true)

each_float(make_masked)

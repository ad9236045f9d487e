#include "instantiate.h"
#include "mlx/backend/metal/kernels/steel/gemm/gemm.h"
#include "mlx/backend/metal/kernels/steel/gemm/kernels/steel_gemm_splitk.h"

#define make_splitk(name, type)                                                                                     \
  instantiate_kernel("splitk_nn_" #name, gemm_splitk, type, float, 16, 16, 16, 2, 2, false, false, false, true)     \
  instantiate_kernel("splitk_nt_" #name, gemm_splitk, type, float, 32, 32, 16, 2, 2, false, true, true, false)      \
  instantiate_kernel("splitk_accum_" #name, gemm_splitk_accum, float, type)                                         \
  instantiate_kernel("splitk_accum_axpby_" #name, gemm_splitk_accum_axpby, float, type)

each_float(make_splitk)

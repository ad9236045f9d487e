#include "instantiate.h"
#include "mlx/backend/metal/kernels/steel/gemm/gemm.h"
#include "mlx/backend/metal/kernels/steel/gemm/kernels/steel_gemm_segmented.h"

#define make_segmented(name, type)                                                                 \
  instantiate_kernel("segmented_mm_nn_" #name, segmented_mm, type, 32, 32, 16, 2, 2, false, false) \
  instantiate_kernel("segmented_mm_tt_" #name, segmented_mm, type, 64, 64, 16, 1, 2, true, true)

each_float(make_segmented)

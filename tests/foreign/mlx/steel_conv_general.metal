#include "instantiate.h"
#include "mlx/backend/metal/kernels/steel/gemm/gemm.h"
#include "mlx/backend/metal/kernels/steel/conv/conv.h"
#include "mlx/backend/metal/kernels/steel/conv/params.h"
#include "mlx/backend/metal/kernels/steel/conv/kernels/steel_conv_general.h"

#define make_conv(name, type) \
  instantiate_kernel("conv_2d_general_" #name, implicit_gemm_conv_2d_general, type, 32, 32, 16, 2, 2)

each_float(make_conv)

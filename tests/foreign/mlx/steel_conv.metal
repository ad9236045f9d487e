#include "instantiate.h"
#include "mlx/backend/metal/kernels/steel/gemm/mma.h"
#include "mlx/backend/metal/kernels/steel/conv/conv.h"
#include "mlx/backend/metal/kernels/steel/conv/params.h"
#include "mlx/backend/metal/kernels/steel/conv/kernels/steel_conv.h"
#include "mlx/backend/metal/kernels/steel/conv/kernels/steel_conv_3d.h"

#define make_conv(name, type)                                                                               \
  instantiate_kernel("conv_2d_" #name, implicit_gemm_conv_2d, type, 32, 8, 16, 4, 1)                        \
  instantiate_kernel("conv_2d_small_" #name, implicit_gemm_conv_2d, type, 32, 32, 16, 2, 2, 0, true)        \
  instantiate_kernel("conv_2d_channels_" #name, implicit_gemm_conv_2d, type, 32, 8, 16, 4, 1, 4)            \
  instantiate_kernel("conv_3d_" #name, implicit_gemm_conv_3d, type, 32, 32, 16, 2, 2, true)                 \
  instantiate_kernel("conv_3d_large_" #name, implicit_gemm_conv_3d, type, 32, 32, 16, 2, 2, false)

each_float(make_conv)

#include "instantiate.h"
#include "mlx/backend/metal/kernels/steel/gemm/gemm.h"
#include "mlx/backend/metal/kernels/quantized_utils.h"
#include "mlx/backend/metal/kernels/quantized.h"

#define make_bits(name, type, group, bits)                                                                          \
  instantiate_kernel("quantize_" #name "_" #group "_" #bits, affine_quantize, type, group, bits)                    \
  instantiate_kernel("dequantize_" #name "_" #group "_" #bits, affine_dequantize, type, group, bits)                \
  instantiate_kernel("qmv_fast_" #name "_" #group "_" #bits, affine_qmv_fast, type, group, bits, false)             \
  instantiate_kernel("qmv_" #name "_" #group "_" #bits, affine_qmv, type, group, bits, false)                       \
  instantiate_kernel("qvm_" #name "_" #group "_" #bits, affine_qvm, type, group, bits, false)                       \
  instantiate_kernel("qmm_t_" #name "_" #group "_" #bits, affine_qmm_t, type, group, bits, false, false)            \
  instantiate_kernel("qmm_n_" #name "_" #group "_" #bits, affine_qmm_n, type, group, bits, false)

#define make_more(name, type, group, bits)                                                                          \
  instantiate_kernel("qmv_quad_" #name, affine_qmv_quad, type, group, bits, 64, false)                              \
  instantiate_kernel("qmv_wide_" #name, affine_qmv_wide, type, group, bits, 4, 8, false)                            \
  instantiate_kernel("qvm_split_k_" #name, affine_qvm_split_k, type, group, bits, 8)                                \
  instantiate_kernel("qmm_t_splitk_" #name, affine_qmm_t_splitk, type, group, bits, true)                           \
  instantiate_kernel("gather_qmv_fast_" #name, affine_gather_qmv_fast, type, group, bits)                           \
  instantiate_kernel("gather_qmv_" #name, affine_gather_qmv, type, group, bits)                                     \
  instantiate_kernel("gather_qvm_" #name, affine_gather_qvm, type, group, bits)                                     \
  instantiate_kernel("gather_qmm_t_" #name, affine_gather_qmm_t, type, group, bits, true)                           \
  instantiate_kernel("gather_qmm_n_" #name, affine_gather_qmm_n, type, group, bits)                                 \
  instantiate_kernel("gather_qmm_rhs_t_" #name, affine_gather_qmm_rhs, type, group, bits, 16, 32, 32, 1, 2, true)   \
  instantiate_kernel("gather_qmm_rhs_n_" #name, affine_gather_qmm_rhs, type, group, bits, 16, 32, 32, 1, 2, false)

#define make_quantized(name, type) \
  make_bits(name, type, 64, 4)     \
  make_more(name, type, 64, 4)

each_float(make_quantized)
make_bits(float32, float, 32, 2)
make_bits(float32, float, 64, 3)
make_bits(float32, float, 32, 5)
make_bits(float32, float, 64, 6)
make_bits(float32, float, 128, 8)

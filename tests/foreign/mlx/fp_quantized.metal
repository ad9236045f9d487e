#include "instantiate.h"
#include "mlx/backend/metal/kernels/steel/gemm/gemm.h"
#include "mlx/backend/metal/kernels/quantized_utils.h"
#include "mlx/backend/metal/kernels/fp_quantized.h"

#define make_mode(mode, name, type, group, bits)                                                                     \
  instantiate_kernel(#mode "_quantize_" #name, fp_quantize, type, group, bits, false)                                \
  instantiate_kernel(#mode "_dequantize_" #name, fp_dequantize, type, group, bits, false)                            \
  instantiate_kernel(#mode "_quantize_dequantize_" #name, fp_quantize_dequantize, type, group, bits, false)          \
  instantiate_kernel(#mode "_qmv_fast_" #name, fp_qmv_fast, type, group, bits, false)                                \
  instantiate_kernel(#mode "_qmv_" #name, fp_qmv, type, group, bits, false)                                          \
  instantiate_kernel(#mode "_qvm_" #name, fp_qvm, type, group, bits, false)                                          \
  instantiate_kernel(#mode "_qmm_t_" #name, fp_qmm_t, type, group, bits, true, false)

#define make_more(mode, name, type, group, bits)                                                                     \
  instantiate_kernel(#mode "_qmm_n_" #name, fp_qmm_n, type, group, bits, false)                                      \
  instantiate_kernel(#mode "_qmv_quad_" #name, fp_qmv_quad, type, group, bits, 64, false)                            \
  instantiate_kernel(#mode "_qmv_wide_" #name, fp_qmv_wide, type, group, bits, 4, 8, false)                          \
  instantiate_kernel(#mode "_qvm_split_k_" #name, fp_qvm_split_k, type, group, bits, 8)                              \
  instantiate_kernel(#mode "_qmm_t_splitk_" #name, fp_qmm_t_splitk, type, group, bits, true)                         \
  instantiate_kernel(#mode "_gather_qmv_fast_" #name, fp_gather_qmv_fast, type, group, bits)                         \
  instantiate_kernel(#mode "_gather_qmv_" #name, fp_gather_qmv, type, group, bits)                                   \
  instantiate_kernel(#mode "_gather_qvm_" #name, fp_gather_qvm, type, group, bits)                                   \
  instantiate_kernel(#mode "_gather_qmm_t_" #name, fp_gather_qmm_t, type, group, bits, true)                         \
  instantiate_kernel(#mode "_gather_qmm_n_" #name, fp_gather_qmm_n, type, group, bits)                               \
  instantiate_kernel(#mode "_gather_qmm_rhs_" #name, fp_gather_qmm_rhs, type, group, bits, 16, 32, 32, 1, 2, true)

#define make_fp(name, type)              \
  make_mode(mxfp4, name, type, 32, 4)    \
  make_more(mxfp4, name, type, 32, 4)

each_float(make_fp)
make_mode(nvfp4, float32, float, 16, 4)
make_mode(mxfp8, float32, float, 32, 8)

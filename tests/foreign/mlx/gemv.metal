#include "instantiate.h"
#include "mlx/backend/metal/kernels/gemv.h"

#define make_gemv(name, type)                                                                      \
  instantiate_kernel("gemv_" #name, gemv, type, 4, 1, 1, 32, 4, 4, false, false)                   \
  instantiate_kernel("gemv_axpby_" #name, gemv, type, 1, 8, 1, 32, 1, 4, true, true)               \
  instantiate_kernel("gemv_t_" #name, gemv_t, type, 1, 2, 8, 4, 4, 4, false, false)                \
  instantiate_kernel("gemv_t_axpby_" #name, gemv_t, type, 1, 4, 8, 4, 4, 4, true, true)            \
  instantiate_kernel("gemv_gather_" #name, gemv_gather, type, 4, 1, 1, 32, 4, 4)                   \
  instantiate_kernel("gemv_t_gather_" #name, gemv_t_gather, type, 1, 2, 8, 4, 4, 4)                \
  instantiate_kernel("gemv_wide_" #name, gemv_wide, type, 4, 8)                                    \
  instantiate_kernel("gemv_wide_gather_" #name, gemv_wide_gather, type, 4, 8)

each_float(make_gemv)

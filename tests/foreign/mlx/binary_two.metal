#include "instantiate.h"
#include "mlx/backend/metal/kernels/binary_ops.h"
#include "mlx/backend/metal/kernels/binary_two.h"

#define make_divmod(name, type)                                                    \
  instantiate_kernel("ss_DivMod_" #name, binary_ss, type, type, DivMod)            \
  instantiate_kernel("sv_DivMod_" #name, binary_sv, type, type, DivMod)            \
  instantiate_kernel("vs_DivMod_" #name, binary_vs, type, type, DivMod)            \
  instantiate_kernel("vv_DivMod_" #name, binary_vv, type, type, DivMod)            \
  instantiate_kernel("sv2_DivMod_" #name, binary_sv2, type, type, DivMod)          \
  instantiate_kernel("vs2_DivMod_" #name, binary_vs2, type, type, DivMod)          \
  instantiate_kernel("vv2_DivMod_" #name, binary_vv2, type, type, DivMod)          \
  instantiate_kernel("g1_DivMod_" #name, binary_g_nd1, type, type, DivMod, int)    \
  instantiate_kernel("g2_DivMod_" #name, binary_g_nd2, type, type, DivMod, int)    \
  instantiate_kernel("g3_DivMod_" #name, binary_g_nd3, type, type, DivMod, int)    \
  instantiate_kernel("gn2_DivMod_" #name, binary_g, type, type, DivMod, 2, int)

each_float(make_divmod)
make_divmod(int32, int32_t)

#include "instantiate.h"
#include "mlx/backend/metal/kernels/ternary_ops.h"
#include "mlx/backend/metal/kernels/ternary.h"

#define make_ternary(name, type)                                                 \
  instantiate_kernel("v_Select_" #name, ternary_v, type, Select, false, false)   \
  instantiate_kernel("vs_Select_" #name, ternary_v, type, Select, false, true)   \
  instantiate_kernel("v2_Select_" #name, ternary_v2, type, Select, true, false)  \
  instantiate_kernel("g1_Select_" #name, ternary_g_nd1, type, Select, int)       \
  instantiate_kernel("g2_Select_" #name, ternary_g_nd2, type, Select, int)       \
  instantiate_kernel("g3_Select_" #name, ternary_g_nd3, type, Select, int)       \
  instantiate_kernel("gn2_Select_" #name, ternary_g, type, Select, 2, int)

each_float(make_ternary)
make_ternary(int64, int64_t)

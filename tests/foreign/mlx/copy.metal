#include "instantiate.h"
#include "mlx/backend/metal/kernels/copy.h"

#define make_copy(name, from, to)                                                            \
  instantiate_kernel("s_copy_" #name, copy_s, from, to)                                      \
  instantiate_kernel("v_copy_" #name, copy_v, from, to)                                      \
  instantiate_kernel("s2_copy_" #name, copy_s2, from, to)                                    \
  instantiate_kernel("v2_copy_" #name, copy_v2, from, to)                                    \
  instantiate_kernel("g1_copy_" #name, copy_g_nd1, from, to, int)                            \
  instantiate_kernel("g2_copy_" #name, copy_g_nd2, from, to, int)                            \
  instantiate_kernel("g3_copy_" #name, copy_g_nd3, from, to, int)                            \
  instantiate_kernel("g_copy_" #name, copy_g, from, to, 2, int)                              \
  instantiate_kernel("gg1_copy_" #name, copy_gg_nd1, from, to, int)                          \
  instantiate_kernel("gg2_copy_" #name, copy_gg_nd2, from, to, int)                          \
  instantiate_kernel("gg3_copy_" #name, copy_gg_nd3, from, to)                               \
  instantiate_kernel("gg_copy_" #name, copy_gg, from, to, 2, int)                            \
  instantiate_kernel("gg1_dynamic_copy_" #name, copy_gg_dynamic_nd1, from, to, int)          \
  instantiate_kernel("gg2_dynamic_copy_" #name, copy_gg_dynamic_nd2, from, to, int)          \
  instantiate_kernel("gg3_dynamic_copy_" #name, copy_gg_dynamic_nd3, from, to)               \
  instantiate_kernel("gg_dynamic_copy_" #name, copy_gg_dynamic, from, to, 2, int)

make_copy(float32_float32, float, float)
make_copy(float16_float32, half, float)
make_copy(bfloat16_bfloat16, bfloat16_t, bfloat16_t)

#define make_cast(name, from, to) instantiate_kernel("v_copy_" #name, copy_v, from, to)

make_cast(float32_float16, float, half)
make_cast(float32_bfloat16, float, bfloat16_t)
make_cast(bfloat16_float32, bfloat16_t, float)
make_cast(float16_bfloat16, half, bfloat16_t)
make_cast(bfloat16_float16, bfloat16_t, half)
make_cast(float32_int32, float, int32_t)
make_cast(float32_bool_, float, bool)
make_cast(bfloat16_bool_, bfloat16_t, bool)
make_cast(int64_float32, int64_t, float)
make_cast(bool__uint8, bool, uint8_t)
make_cast(float32_complex64, float, complex64_t)

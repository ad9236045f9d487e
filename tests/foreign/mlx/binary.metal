// clang-format off
#include "instantiate.h"
#include "mlx/backend/metal/kernels/binary_ops.h"
#include "mlx/backend/metal/kernels/binary.h"

#define make_shapes(op, name, type, out)                                               \
  instantiate_kernel("ss_" #op "_" #name, binary_ss, type, out, op)                    \
  instantiate_kernel("sv_" #op "_" #name, binary_sv, type, out, op)                    \
  instantiate_kernel("vs_" #op "_" #name, binary_vs, type, out, op)                    \
  instantiate_kernel("sv2_" #op "_" #name, binary_sv2, type, out, op)                  \
  instantiate_kernel("vs2_" #op "_" #name, binary_vs2, type, out, op)                  \
  instantiate_kernel("vv2_" #op "_" #name, binary_vv2, type, out, op)                  \
  instantiate_kernel("g1_" #op "_" #name, binary_g_nd1, type, out, op, int)            \
  instantiate_kernel("g2_" #op "_" #name, binary_g_nd2, type, out, op, int)            \
  instantiate_kernel("g3_" #op "_" #name, binary_g_nd3, type, out, op, int)            \
  instantiate_kernel("gn2_" #op "_" #name, binary_g, type, out, op, 2, int)            \
  instantiate_kernel("gn4large_" #op "_" #name, binary_g, type, out, op, 4, int64_t)

#define make_vv(op, name, type, out) instantiate_kernel("vv_" #op "_" #name, binary_vv, type, out, op)

#define make_number(name, type)      \
  make_vv(Add, name, type, type)          \
  make_vv(Subtract, name, type, type)     \
  make_vv(Multiply, name, type, type)     \
  make_vv(Divide, name, type, type)       \
  make_vv(FloorDivide, name, type, type)  \
  make_vv(Remainder, name, type, type)    \
  make_vv(Maximum, name, type, type)      \
  make_vv(Minimum, name, type, type)      \
  make_vv(Power, name, type, type)        \
  make_vv(Equal, name, type, bool)        \
  make_vv(NotEqual, name, type, bool)     \
  make_vv(Greater, name, type, bool)      \
  make_vv(GreaterEqual, name, type, bool) \
  make_vv(Less, name, type, bool)         \
  make_vv(LessEqual, name, type, bool)

#define make_real(name, type)         \
  make_number(name, type)             \
  make_vv(NaNEqual, name, type, bool)      \
  make_vv(LogAddExp, name, type, type)     \
  make_vv(ArcTan2, name, type, type)       \
  make_shapes(Add, name, type, type)

#define make_integer(name, type)        \
  make_number(name, type)               \
  make_vv(BitwiseAnd, name, type, type) \
  make_vv(BitwiseOr, name, type, type)  \
  make_vv(BitwiseXor, name, type, type) \
  make_vv(LeftShift, name, type, type)  \
  make_vv(RightShift, name, type, type)

each_float(make_real)
make_integer(int32, int32_t)
make_integer(uint8, uint8_t)
make_integer(int64, int64_t)
make_vv(LogicalAnd, bool_, bool, bool)
make_vv(LogicalOr, bool_, bool, bool)
make_vv(Add, complex64, complex64_t, complex64_t)
make_vv(Multiply, complex64, complex64_t, complex64_t)
make_vv(Divide, complex64, complex64_t, complex64_t)
make_vv(Power, complex64, complex64_t, complex64_t)

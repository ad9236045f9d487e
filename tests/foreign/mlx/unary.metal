#include "instantiate.h"
#include "mlx/backend/metal/kernels/unary_ops.h"
#include "mlx/backend/metal/kernels/unary.h"

#define make_v(op, name, from, to) instantiate_kernel("v_" #op "_" #name, unary_v, from, to, op)

#define make_same(op, name, type) make_v(op, name, type, type)

#define make_real(name, type)                                                        \
  make_same(Abs, name, type) make_same(ArcCos, name, type) make_same(ArcCosh, name, type) \
  make_same(ArcSin, name, type) make_same(ArcSinh, name, type) make_same(ArcTan, name, type) \
  make_same(ArcTanh, name, type) make_same(Ceil, name, type) make_same(Cos, name, type) \
  make_same(Cosh, name, type) make_same(Erf, name, type) make_same(ErfInv, name, type) \
  make_same(Exp, name, type) make_same(Expm1, name, type) make_same(Floor, name, type) \
  make_same(Log, name, type) make_same(Log2, name, type) make_same(Log10, name, type) \
  make_same(Log1p, name, type) make_same(Negative, name, type) make_same(Round, name, type) \
  make_same(Sigmoid, name, type) make_same(Sign, name, type) make_same(Sin, name, type) \
  make_same(Sinh, name, type) make_same(Square, name, type) make_same(Sqrt, name, type) \
  make_same(Rsqrt, name, type) make_same(Tan, name, type) make_same(Tanh, name, type) \
  make_v(ToFP8, name, type, uint8_t)                                                 \
  instantiate_kernel("v_FromFP8_" #name, unary_v, uint8_t, type, FromFP8)            \
  instantiate_kernel("v2_Exp_" #name, unary_v2, type, type, Exp)                     \
  instantiate_kernel("gn1_Exp_" #name, unary_g, type, type, Exp, 1, int)             \
  instantiate_kernel("gn4large_Exp_" #name, unary_g, type, type, Exp, 4)

each_float(make_real)
make_same(Abs, int32, int32_t)
make_same(BitwiseInvert, uint8, uint8_t)
make_same(Negative, int64, int64_t)
make_same(Sign, int32, int32_t)
make_same(LogicalNot, bool_, bool)
make_same(Exp, complex64, complex64_t)
make_same(Sqrt, complex64, complex64_t)
make_same(Log, complex64, complex64_t)
make_same(Conjugate, complex64, complex64_t)
make_v(Abs, complex64_float32, complex64_t, float)
make_v(Real, complex64_float32, complex64_t, float)
make_v(Imag, complex64_float32, complex64_t, float)

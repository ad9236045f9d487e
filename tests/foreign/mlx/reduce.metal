#include "instantiate.h"
#include "mlx/backend/metal/kernels/atomic.h"
#include "mlx/backend/metal/kernels/reduction/ops.h"
#include "mlx/backend/metal/kernels/reduce_utils.h"
#include "mlx/backend/metal/kernels/reduce.h"

#define make_all(op, name, type, out) instantiate_kernel("all_" #op "_" #name, all_reduce, type, out, op<out>, int)

#define make_reduce(op, name, type, out)                                                                           \
  instantiate_kernel("init_" #op "_" #name, init_reduce, out, op<out>)                                             \
  make_all(op, name, type, out)                                                                                    \
  instantiate_kernel("row_small_" #op "_" #name, row_reduce_small, type, out, op<out>, int, 1)                     \
  instantiate_kernel("row_simple_" #op "_" #name, row_reduce_simple, type, out, op<out>, int)                      \
  instantiate_kernel("row_looped_" #op "_" #name, row_reduce_looped, type, out, op<out>, int, 1)                   \
  instantiate_kernel("row_looped_nd_" #op "_" #name, row_reduce_looped, type, out, op<out>, int64_t, 5)            \
  instantiate_kernel("col_small_" #op "_" #name, col_reduce_small, type, out, op<out>, int, 1)                     \
  instantiate_kernel("col_longcolumn_" #op "_" #name, col_reduce_longcolumn, type, out, op<out>, int, 1)           \
  instantiate_kernel("col_looped_32_32_" #op "_" #name, col_reduce_looped, type, out, op<out>, int, 1, 32, 32)     \
  instantiate_kernel("col_looped_8_128_" #op "_" #name, col_reduce_looped, type, out, op<out>, int, 1, 8, 128)     \
  instantiate_kernel("col_2pass_" #op "_" #name, col_reduce_2pass, type, out, op<out>, int, 1, 32, 32)

#define make_number(name, type)        \
  make_reduce(Sum, name, type, type)   \
  make_all(Prod, name, type, type)     \
  make_all(Max, name, type, type)      \
  make_all(Min, name, type, type)

each_float(make_number)
make_number(int32, int32_t)
make_all(Sum, int64, int64_t, int64_t)
make_all(Max, uint8, uint8_t, uint8_t)
make_all(Sum, complex64, complex64_t, complex64_t)
make_all(And, bool_, bool, bool)
make_all(Or, bool_, bool, bool)

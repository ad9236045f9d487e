#include "instantiate.h"
#include "mlx/backend/metal/kernels/scan.h"

#define make_kind(base, op, name, type, inclusive, reverse)                                                    \
  instantiate_kernel("contiguous_" #base "_" #name, contiguous_scan, type, type, op<type>, 4, inclusive, reverse) \
  instantiate_kernel("strided_" #base "_" #name, strided_scan, type, type, op<type>, 4, inclusive, reverse)

#define make_op(base, op, name, type)                                 \
  make_kind(inclusive_##base, op, name, type, true, false)

#define make_scan(name, type)                                         \
  make_op(sum, CumSum, name, type)                                    \
  make_kind(exclusive_sum, CumSum, name, type, false, false)          \
  make_kind(reverse_sum, CumSum, name, type, true, true)              \
  make_kind(reverse_exclusive_sum, CumSum, name, type, false, true)   \
  make_op(prod, CumProd, name, type)                                  \
  make_op(max, CumMax, name, type)                                    \
  make_op(min, CumMin, name, type)

each_float(make_scan)
make_scan(int32, int32_t)
make_op(logaddexp, CumLogaddexp, float32, float)
make_op(logaddexp, CumLogaddexp, float16, half)
make_op(logaddexp, CumLogaddexp, bfloat16, bfloat16_t)
make_op(sum, CumSum, int64, int64_t)

// Apart from indexing.metal: this header and binary_ops.h both define `logger`.
#include "instantiate.h"
#include "mlx/backend/metal/kernels/indexing/masked_scatter.h"

#define make_masked(name, type)                                              \
  instantiate_kernel("masked_assign_" #name, masked_assign_impl, type, true) \
  instantiate_kernel("masked_assign_strided_" #name, masked_assign_impl, type, false)

each_float(make_masked)

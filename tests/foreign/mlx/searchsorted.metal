#include "instantiate.h"
#include "mlx/backend/metal/kernels/sort.h"
#include "mlx/backend/metal/kernels/searchsorted.h"

#define make_searchsorted(name, type)                                       \
  instantiate_kernel("searchsorted_left_" #name, searchsorted, type, false) \
  instantiate_kernel("searchsorted_right_" #name, searchsorted, type, true)

each_float(make_searchsorted)
make_searchsorted(int32, int32_t)

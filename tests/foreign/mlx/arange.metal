#include "instantiate.h"
#include "mlx/backend/metal/kernels/arange.h"

#define make_arange(name, type) instantiate_kernel("arange_" #name, arange, type)

each_float(make_arange)
make_arange(int32, int32_t)
make_arange(uint8, uint8_t)
make_arange(int64, int64_t)

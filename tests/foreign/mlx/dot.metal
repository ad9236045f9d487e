#include "instantiate.h"
#include "mlx/backend/metal/kernels/dot.h"

#define make_dot(name, type) instantiate_kernel("dot_" #name, dot_product, type, 32, 64, 2)

each_float(make_dot)

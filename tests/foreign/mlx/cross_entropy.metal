#include "instantiate.h"
#include "mlx/backend/metal/kernels/cross_entropy.h"

#define make_cross_entropy(name, type)                                  \
  instantiate_kernel("cross_entropy_" #name, cross_entropy, type)       \
  instantiate_kernel("cross_entropy_vjp_" #name, cross_entropy_vjp, type)

each_float(make_cross_entropy)

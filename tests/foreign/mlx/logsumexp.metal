#include "instantiate.h"
#include "mlx/backend/metal/kernels/logsumexp.h"

#define make_logsumexp(name, type)                                     \
  instantiate_kernel("block_logsumexp_" #name, logsumexp, type)        \
  instantiate_kernel("looped_logsumexp_" #name, logsumexp_looped, type)

each_float(make_logsumexp)

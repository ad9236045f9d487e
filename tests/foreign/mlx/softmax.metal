#include "instantiate.h"
#include "mlx/backend/metal/kernels/softmax.h"

#define make_softmax(name, type)                                                      \
  instantiate_kernel("block_softmax_" #name, softmax_single_row, type)                \
  instantiate_kernel("looped_softmax_" #name, softmax_looped, type)                   \
  instantiate_kernel("block_softmax_precise_" #name, softmax_single_row, type, float) \
  instantiate_kernel("looped_softmax_precise_" #name, softmax_looped, type, float)

each_float(make_softmax)

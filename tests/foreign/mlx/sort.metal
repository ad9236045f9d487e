#include "instantiate.h"
#include "mlx/backend/metal/kernels/sort.h"

#define make_sort(name, type)                                                                      \
  instantiate_kernel("block_sort_" #name, block_sort, type, type, false, 32, 4)                    \
  instantiate_kernel("block_argsort_" #name, block_sort, type, uint32_t, true, 64, 4)              \
  instantiate_kernel("block_sort_nc_" #name, block_sort_nc, type, type, false, 32, 8)              \
  instantiate_kernel("mb_block_sort_" #name, mb_block_sort, type, uint32_t, true, 32, 4)           \
  instantiate_kernel("mb_block_partition_" #name, mb_block_partition, type, uint32_t, true, 32, 4) \
  instantiate_kernel("mb_block_merge_" #name, mb_block_merge, type, uint32_t, true, 32, 4)

each_float(make_sort)
make_sort(int32, int32_t)

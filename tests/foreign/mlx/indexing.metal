#include "instantiate.h"
#include "mlx/backend/metal/kernels/atomic.h"
#include "mlx/backend/metal/kernels/binary_ops.h"
#include "mlx/backend/metal/kernels/reduction/ops.h"
#include "mlx/backend/metal/kernels/indexing/gather.h"
#include "mlx/backend/metal/kernels/indexing/gather_axis.h"
#include "mlx/backend/metal/kernels/indexing/gather_front.h"
#include "mlx/backend/metal/kernels/indexing/scatter.h"
#include "mlx/backend/metal/kernels/indexing/scatter_axis.h"

// gather_impl and scatter_impl are no kernels: MLX writes one around them for each number of index arrays.
template <typename T, typename IdxT, int IDX_NDIM, typename LocT>
[[kernel]] void gather_two(
    const device T* src [[buffer(0)]],
    device T* out [[buffer(1)]],
    const constant int* src_shape [[buffer(2)]],
    const constant int64_t* src_strides [[buffer(3)]],
    const constant size_t& src_ndim [[buffer(4)]],
    const constant int* slice_sizes [[buffer(5)]],
    const constant int* axes [[buffer(6)]],
    const constant int* idx_shapes [[buffer(7)]],
    const constant int64_t* idx_strides [[buffer(8)]],
    const constant bool* idx_contigs [[buffer(9)]],
    const constant int& idx_ndim [[buffer(10)]],
    const device IdxT* idx0 [[buffer(20)]],
    const device IdxT* idx1 [[buffer(21)]],
    uint3 index [[thread_position_in_grid]],
    uint3 grid_dim [[threads_per_grid]]) {
  Indices<IdxT, 2> indices{{{idx0, idx1}}, idx_shapes, idx_strides, idx_contigs, idx_ndim};
  gather_impl<T, IdxT, 2, IDX_NDIM, LocT>(
      src, out, src_shape, src_strides, src_ndim, slice_sizes, axes, indices, index, grid_dim);
}

template <typename T, typename IdxT, typename Op, bool UPD_ROW_CONTIG, int NWORK, typename LocT>
[[kernel]] void scatter_one(
    const device T* updates [[buffer(1)]],
    device mlx_atomic<T>* out [[buffer(2)]],
    const constant int* upd_shape [[buffer(3)]],
    const constant int64_t* upd_strides [[buffer(4)]],
    const constant size_t& upd_ndim [[buffer(5)]],
    const constant size_t& upd_size [[buffer(6)]],
    const constant int* out_shape [[buffer(7)]],
    const constant int64_t* out_strides [[buffer(8)]],
    const constant size_t& out_ndim [[buffer(9)]],
    const constant int* axes [[buffer(10)]],
    const constant int* idx_shapes [[buffer(11)]],
    const constant int64_t* idx_strides [[buffer(12)]],
    const constant bool* idx_contigs [[buffer(13)]],
    const constant int& idx_ndim [[buffer(14)]],
    const constant size_t& idx_size [[buffer(15)]],
    const device IdxT* idx0 [[buffer(20)]],
    uint2 gid [[thread_position_in_grid]]) {
  Indices<IdxT, 1> indices{{{idx0}}, idx_shapes, idx_strides, idx_contigs, idx_ndim};
  scatter_impl<T, IdxT, Op, 1, UPD_ROW_CONTIG, NWORK, LocT>(
      updates, out, upd_shape, upd_strides, upd_ndim, upd_size, out_shape, out_strides, out_ndim, axes, idx_size,
      indices, gid);
}

#define make_indexing(name, type)                                                                             \
  instantiate_kernel("gather_two_0_" #name, gather_two, type, uint32_t, 0, int)                               \
  instantiate_kernel("gather_two_1_" #name, gather_two, type, int32_t, 1, int)                                \
  instantiate_kernel("gather_two_2_" #name, gather_two, type, int32_t, 2, int64_t)                            \
  instantiate_kernel("gather_axis_" #name, gather_axis, type, int32_t, int, true, true)                       \
  instantiate_kernel("gather_axis_strided_" #name, gather_axis, type, int32_t, int64_t, false, false)         \
  instantiate_kernel("gather_front_" #name, gather_front, type, uint32_t, int, 4)                             \
  instantiate_kernel("scatter_sum_" #name, scatter_one, type, int32_t, Sum<type>, true, 1, int)               \
  instantiate_kernel("scatter_none_" #name, scatter_one, type, uint32_t, None, true, 1, int)                  \
  instantiate_kernel("scatter_max_" #name, scatter_one, type, int32_t, Max<type>, false, 4, int64_t)          \
  instantiate_kernel("scatter_min_" #name, scatter_one, type, int32_t, Min<type>, true, 1, int)               \
  instantiate_kernel("scatter_prod_" #name, scatter_one, type, int32_t, Prod<type>, true, 1, int)             \
  instantiate_kernel("scatter_axis_sum_" #name, scatter_axis, type, int32_t, int, Sum<type>, true, true)      \
  instantiate_kernel("scatter_axis_none_" #name, scatter_axis, type, uint32_t, int64_t, None, false, false)   \
  instantiate_kernel("slice_update_" #name, slice_update_op_impl, type, int, Add, false, true, false, 1, 2)   \
  instantiate_kernel("slice_update_scalar_" #name, slice_update_op_impl, type, int64_t, Multiply, true, false, true, 2, 1)

each_float(make_indexing)
make_indexing(int32, int32_t)

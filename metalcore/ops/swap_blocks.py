"""Whole blocks from one cache to another: kernels/cache_blocks.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_array, check_shape, refuse
from metalcore.ops.base.kv_cache import check_cache, check_host_pairs, check_pairs, copy_pairs, host_pairs, move_blocks
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.runtime import Runtime


def swap_blocks(src: Any, dst: Any, block_mapping: Any) -> Any:
    """Copy blocks of the cache `src` into the cache `dst`, bit for bit: `dst[to] = src[from]` for each pair (from, to)
    of `block_mapping`, which is (pairs, 2) and holds int64 or int32.

    Both have the same dtype and blocks (dimension 0) of the same shape, in any layout, on one device; how many blocks
    each has is its own. `dst` is written in place and nothing is returned; for mlx arrays a new `dst` is returned. A
    block out of range, or one that two pairs write, raises IndexRangeError, and nothing is written; on a GPU pairs out
    of range are skipped (METALCORE_CHECK_GPU=1 makes them an error). Where both are on a GPU, a `block_mapping` on the
    CPU is checked there, and no kernel runs: on MPS the native extension copies by a blit.

    >>> import numpy as np, metalcore
    >>> src, dst = np.arange(6, dtype=np.float32).reshape(3, 2), np.zeros((2, 2), np.float32)
    >>> metalcore.swap_blocks(src, dst, np.array([[2, 0]]))
    >>> dst.tolist()
    [[4.0, 5.0], [0.0, 0.0]]
    """
    return OP(src, dst, block_mapping, src is dst)


@stage("(Tensor src, Tensor(a!) dst, Tensor block_mapping, bool is_one_array) -> ()")
def forward(run: Runtime, src: Any, dst: Any, block_mapping: Any, is_one_array: bool) -> tuple[Any, ...]:
    dtype = check_cache("swap_blocks", "dst", dst)
    if check_array("swap_blocks", "src", src) != dtype:
        refuse("swap_blocks", "src", f"of the dtype of dst, {dtype}", f"of dtype {run.dtype(src)}")
    if not len(src.shape):
        refuse("swap_blocks", "src", "an array of blocks", "of no dimension")
    check_shape("swap_blocks", "src", src, (src.shape[0], *dst.shape[1:]))
    pairs = host_pairs(run, "swap_blocks", {"dst": dst, "src": src}, block_mapping)
    if pairs is not None:
        check_host_pairs("swap_blocks", pairs, src.shape[0], dst.shape[0], is_one_array)
        copy_pairs(run, src, dst, pairs)
        return ()
    mapping = run.contiguous(block_mapping)
    check_pairs(run, "swap_blocks", mapping, src.shape[0], dst.shape[0], is_one_array)
    return move_blocks(run, src, dst, mapping)


OP = Op("swap_blocks", "blocks of one cache into another", forward)

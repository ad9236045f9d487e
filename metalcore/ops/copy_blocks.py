"""Whole blocks to other places of the same caches: kernels/cache_blocks.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.kv_cache import check_cache, check_host_pairs, check_pairs, copy_pairs, host_pairs, move_blocks
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.runtime import Runtime


def copy_blocks(key_caches: Any, value_caches: Any, block_mapping: Any) -> Any:
    """Copy blocks inside each cache, bit for bit: `cache[to] = cache[from]` for each pair (from, to) of
    `block_mapping`, which is (pairs, 2) and holds int64 or int32.

    `key_caches` and `value_caches` are lists with a cache for each layer, or one array each. Blocks are dimension 0,
    and all caches have as many; the layout and dtype of each are free. Caches are written in place and nothing is
    returned; for mlx arrays new ones are returned, as they were given. Pairs are independent: a block out of range, one
    that two pairs write, or one that a pair writes and another reads, raises IndexRangeError, and nothing is written;
    on a GPU pairs out of range are skipped (METALCORE_CHECK_GPU=1 makes all of these errors). Where the caches
    are on a GPU, a `block_mapping` on the CPU is checked there, and no kernel runs: on MPS the native extension copies
    by a blit.

    >>> import numpy as np, metalcore
    >>> keys, values = np.arange(4, dtype=np.float32).reshape(4, 1), np.ones((4, 2, 1), np.float32)
    >>> metalcore.copy_blocks(keys, values, np.array([[3, 0], [3, 1]]))
    >>> keys.ravel().tolist()
    [3.0, 3.0, 2.0, 3.0]
    """
    if not isinstance(key_caches, (list, tuple)) and not isinstance(value_caches, (list, tuple)):
        return OP(key_caches, value_caches, block_mapping, True)
    given = [len(c) if isinstance(c, (list, tuple)) else "one array" for c in (key_caches, value_caches)]
    if given[0] != given[1]:
        refuse("copy_blocks", "value_caches", f"as many as key_caches, {given[0]}", given[1])
    layers = list(zip(key_caches, value_caches, strict=True))
    if not layers:
        return None
    for i, pair in enumerate(layers):  # all before the first is written
        _check_layer(pair, layers[0][0].shape[0], f"[{i}]")
    made = [OP(*pair, block_mapping, i == 0) for i, pair in enumerate(layers)]
    return None if made[0] is None else tuple([m[place] for m in made] for place in range(2))


def _check_layer(caches: tuple[Any, Any], blocks: int, at: str) -> None:
    for name, cache in zip(("key_caches", "value_caches"), caches, strict=True):
        check_cache("copy_blocks", f"{name}{at}", cache)
        if cache.shape[0] != blocks:
            refuse("copy_blocks", f"{name}{at}", f"of {blocks} blocks, as the first", f"of {cache.shape[0]}")


@stage("(Tensor(a!) key_caches, Tensor(b!) value_caches, Tensor block_mapping, bool is_first) -> ()")
def forward(run: Runtime, key_caches: Any, value_caches: Any, block_mapping: Any, is_first: bool) -> tuple[Any, ...]:
    """One layer. The first one looks at the mapping, for all."""
    _check_layer((key_caches, value_caches), key_caches.shape[0] if len(key_caches.shape) else 0, "")
    blocks, caches = key_caches.shape[0], (key_caches, value_caches)
    named = {"key_caches": key_caches, "value_caches": value_caches}
    pairs = host_pairs(run, "copy_blocks", named, block_mapping)
    if pairs is not None:
        if is_first:
            check_host_pairs("copy_blocks", pairs, blocks, blocks, True)
        for cache in caches:
            copy_pairs(run, cache, cache, pairs)
        return ()
    mapping = run.contiguous(block_mapping)
    if is_first:
        check_pairs(run, "copy_blocks", mapping, blocks, blocks, True)
    return tuple(made for cache in caches for made in move_blocks(run, cache, cache, mapping))


OP = Op("copy_blocks", "blocks of caches to other places of the same caches", forward)

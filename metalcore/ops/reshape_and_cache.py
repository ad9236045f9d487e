"""Keys and values of new tokens into a paged cache of Hugging Face's layout: kernels/kv_cache.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.kv_cache import check_scales, declare

NOUN = "reshape_and_cache"


def reshape_and_cache(
    key: Any,
    value: Any,
    key_cache: Any,
    value_cache: Any,
    slot_mapping: Any,
    kv_cache_dtype: str = "auto",
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> Any:
    """Write the key and value of each token, (tokens, heads, head_dim), into its slot of caches in the layout of
    Hugging Face: `key_cache` (blocks, heads, head_dim / x, block_size, x), `value_cache` (blocks, heads, head_dim,
    block_size). A slot is block * block_size + offset.

    In all else it is `reshape_and_cache_flash`: caches are written in place (new ones are returned for mlx arrays),
    slot -1 is skipped, any other slot outside the cache raises IndexRangeError and nothing is written, `kv_cache_dtype`
    "fp8" stores e4m3 of key / k_scale and value / v_scale in caches of uint8.

    >>> import numpy as np, metalcore
    >>> key = np.array([[[1.0, 2.0]], [[3.0, 4.0]]], np.float32)
    >>> keys, values = np.zeros((1, 1, 2, 3, 1), np.float32), np.zeros((1, 1, 2, 3), np.float32)
    >>> metalcore.reshape_and_cache(key, 10 * key, keys, values, np.array([2, 0]))
    >>> values[0, 0].tolist()
    [[30.0, 0.0, 10.0], [40.0, 0.0, 20.0]]
    """
    scales = check_scales(NOUN, k_scale, v_scale)
    return OP(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, *scales)


OP = declare(
    NOUN,
    "keys and values of tokens into slots of a paged cache, Hugging Face's layout; float or fp8",
    is_rows=False,
)

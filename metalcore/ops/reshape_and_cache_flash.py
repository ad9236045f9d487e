"""Keys and values of new tokens into a paged cache whose rows lie one after the other: kernels/kv_cache.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.kv_cache import check_scales, declare

NOUN = "reshape_and_cache_flash"


def reshape_and_cache_flash(
    key: Any,
    value: Any,
    key_cache: Any,
    value_cache: Any,
    slot_mapping: Any,
    kv_cache_dtype: str = "auto",
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> Any:
    """Write the key and value of each token, (tokens, heads, head_dim), into its slot of caches that are
    (blocks, block_size, heads, head_dim). A slot is block * block_size + offset.

    The caches are written in place and nothing is returned; mlx arrays are immutable, so that for them new caches are
    returned. A token with slot -1 is skipped. Any other slot outside the cache raises IndexRangeError and nothing is
    written; on a GPU such a token is skipped (METALCORE_CHECK_GPU=1 makes it an error). The slots of a call must
    differ: which of two tokens in one slot is kept is not settled. Key and value may have head dimensions of their own
    and need not be contiguous; caches must be.

    `kv_cache_dtype` "auto": caches have the dtype of the key. "fp8" or "fp8_e4m3": they are uint8 that holds e4m3 of
    key / k_scale and value / v_scale, rounded to the nearest, at most 448.

    >>> import numpy as np, metalcore
    >>> key = np.array([[[1.0, 2.0]], [[3.0, 4.0]]], np.float32)
    >>> keys, values = np.zeros((2, 2, 1, 2), np.float32), np.zeros((2, 2, 1, 2), np.float32)
    >>> metalcore.reshape_and_cache_flash(key, 10 * key, keys, values, np.array([3, 0]))
    >>> keys.reshape(4, 2).tolist()
    [[3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]
    """
    scales = check_scales(NOUN, k_scale, v_scale)
    return OP(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, *scales)


OP = declare(
    NOUN,
    "keys and values of tokens into slots of a paged cache, rows one after the other; float or fp8",
    is_rows=True,
)

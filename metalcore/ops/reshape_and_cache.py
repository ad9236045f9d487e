"""Keys and values of new tokens into a paged cache of Hugging Face's layout: kernels/kv_cache.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.draw import Draw, Sample
from metalcore.ops.base.kv_cache import cache_tokens, check_scale
from metalcore.ops.base.op import Op, Stage
from metalcore.ops.reshape_and_cache_flash import (
    DIMS,
    SCHEMA,
    draw_blocks,
    draw_cache,
    draw_named,
    draw_rows,
    draw_slots,
    stored,
)
from metalcore.runtimes.runtime import Runtime

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
    scales = check_scale(NOUN, "k_scale", k_scale), check_scale(NOUN, "v_scale", v_scale)
    return OP(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, *scales)


def forward(run: Runtime, *arguments: Any) -> tuple[Any, ...]:
    return cache_tokens(run, NOUN, arguments, is_rows=False)


def reference(
    key: Any,
    value: Any,
    key_cache: Any,
    value_cache: Any,
    slot_mapping: Any,
    kv_cache_dtype: str = "auto",
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> None:
    kept = slot_mapping >= 0
    slots, block_size = slot_mapping[kept].long(), key_cache.shape[3]
    block, offset = slots // block_size, slots % block_size
    keys = stored(key[kept], kv_cache_dtype, k_scale)
    key_cache[block, :, :, offset] = keys.unflatten(2, (key_cache.shape[2], key_cache.shape[4]))
    value_cache[block, :, :, offset] = stored(value[kept], kv_cache_dtype, v_scale)


def samples(draw: Draw) -> Sample:
    tokens, heads, x = draw.size(most=130), draw.choice((1, 2, 3, 8)), draw.choice((1, 2, 4, 8, 16))
    parts, dim = draw.choice((1, 2, 5)), draw.choice(DIMS)
    blocks, block_size = draw_blocks(draw, tokens)
    kind, slots = draw_slots(draw, tokens, blocks * block_size)
    key_cache = draw_cache(draw, (blocks, heads, parts, block_size, x), kind)
    value_cache = draw_cache(draw, (blocks, heads, dim, block_size), kind)
    rows = draw_rows(draw, tokens, heads, (parts * x, dim))
    return Sample((*rows, key_cache, value_cache, slots), draw_named(draw, kind))


OP = Op(
    noun=NOUN,
    summary="keys and values of tokens into slots of a paged cache, Hugging Face's layout; float or fp8",
    forward=Stage(SCHEMA, forward),
    reference=reference,
    samples=samples,
)

"""Fuzzed cases of reshape_and_cache_flash, and the op in plain torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.health.draw import Draw, Sample, Values
from metalcore.ops.base.index import INDEX_TYPES
from metalcore.ops.base.kv_cache import FP8


def stored(rows: Any, named: dict[str, Any], scale: str) -> Any:
    """What a cache holds of rows of keys or values, in plain torch; `scale` is the name of the one that they have."""
    if named.get("kv_cache_dtype", "auto") == "auto":
        return rows
    import torch

    return (rows.float() / named[scale]).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)


def reference(key: Any, value: Any, key_cache: Any, value_cache: Any, slot_mapping: Any, **named: Any) -> None:
    kept = slot_mapping >= 0
    slots = slot_mapping[kept].long()
    for rows, cache, scale in ((key, key_cache, "k_scale"), (value, value_cache, "v_scale")):
        cache.flatten(0, 1)[slots] = stored(rows[kept], named, scale)


def samples(draw: Draw) -> Sample:
    tokens = draw.size(most=130)
    heads, dims = draw.choice((1, 2, 3, 8)), (draw.choice(DIMS), draw.choice(DIMS))
    blocks, block_size = draw_blocks(draw, tokens)
    kind, slots = draw_slots(draw, tokens, blocks * block_size)
    caches = [draw_cache(draw, (blocks, block_size, heads, dim), kind) for dim in dims]
    return Sample((*draw_rows(draw, tokens, heads, dims), *caches, slots), draw_named(draw, kind))


DIMS = (1, 3, 8, 16, 31, 33, 64)


def draw_rows(draw: Draw, tokens: int, heads: int, dims: tuple[int, int]) -> list[Values]:
    return [draw.floats((tokens, heads, dim), grad=False) for dim in dims]


def draw_blocks(draw: Draw, tokens: int) -> tuple[int, int]:
    """Blocks, with room for the tokens, and how many tokens one holds."""
    block_size = draw.choice((1, 3, 8, 16))
    return -(-tokens // block_size) + draw.choice((0, 1, 5)), block_size


def draw_slots(draw: Draw, tokens: int, slots: int) -> tuple[str, Values]:
    """kv_cache_dtype, and a slot for each token, some of them -1."""
    chosen = draw.distinct(tokens, slots, draw.choice(INDEX_TYPES))
    for token in range(0, tokens, draw.choice((2, 7, 1000))):
        chosen[token] = -1
    return draw.choice(("auto", "auto", *FP8)), Values(np.asarray(chosen), is_float=False, grad=False)


def draw_cache(draw: Draw, shape: tuple[int, ...], kind: str) -> Values:
    if kind == "auto":
        return draw.floats(shape, layout="contiguous", grad=False)
    return draw.integers(shape, 0, 255, "uint8", "contiguous")


def draw_named(draw: Draw, kind: str) -> dict[str, Any]:
    if kind == "auto":
        return {}
    return {"kv_cache_dtype": kind, "k_scale": draw.choice((1.0, 0.013)), "v_scale": draw.choice((0.5, 3.7))}

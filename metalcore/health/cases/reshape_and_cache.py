"""Fuzzed cases of reshape_and_cache, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.reshape_and_cache_flash import (
    DIMS,
    draw_blocks,
    draw_cache,
    draw_named,
    draw_rows,
    draw_slots,
    stored,
)
from metalcore.health.draw import Draw, Sample


def reference(key: Any, value: Any, key_cache: Any, value_cache: Any, slot_mapping: Any, **named: Any) -> None:
    kept = slot_mapping >= 0
    slots, block_size = slot_mapping[kept].long(), key_cache.shape[3]
    block, offset = slots // block_size, slots % block_size
    keys = stored(key[kept], named, "k_scale")
    key_cache[block, :, :, offset] = keys.unflatten(2, (key_cache.shape[2], key_cache.shape[4]))
    value_cache[block, :, :, offset] = stored(value[kept], named, "v_scale")


def samples(draw: Draw) -> Sample:
    tokens, heads, x = draw.size(most=130), draw.choice((1, 2, 3, 8)), draw.choice((1, 2, 4, 8, 16))
    parts, dim = draw.choice((1, 2, 5)), draw.choice(DIMS)
    blocks, block_size = draw_blocks(draw, tokens)
    kind, slots = draw_slots(draw, tokens, blocks * block_size)
    key_cache = draw_cache(draw, (blocks, heads, parts, block_size, x), kind)
    value_cache = draw_cache(draw, (blocks, heads, dim, block_size), kind)
    rows = draw_rows(draw, tokens, heads, (parts * x, dim))
    return Sample((*rows, key_cache, value_cache, slots), draw_named(draw, kind))

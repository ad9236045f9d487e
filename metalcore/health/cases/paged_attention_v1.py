"""Fuzzed cases of paged_attention_v1, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.paged_attention import draw_paged
from metalcore.health.cases.paged_attention import reference as plain
from metalcore.health.draw import Draw, Sample, Values


def reference(out: Any, query: Any, key_cache: Any, value_cache: Any, *rest: Any) -> None:
    _, scale, block_tables, seq_lens, _, _, alibi_slopes, _, k_scale, v_scale = rest
    keys = key_cache.permute(0, 3, 1, 2, 4).flatten(3).contiguous()
    values = value_cache.permute(0, 3, 1, 2).contiguous()
    named = {"scale": scale, "alibi_slopes": alibi_slopes, "k_scale": k_scale, "v_scale": v_scale}
    out.copy_(plain(query, keys, values, block_tables, seq_lens, **named))


def samples(draw: Draw) -> Sample:
    while True:
        (query, keys, values, tables, lengths), named = _parts(draw_paged(draw, draw.choice((8, 16, 32))))
        depth = query.values.shape[2]
        if "cu_seqlens_q" not in named and values.values.shape == keys.values.shape:
            break
    part = next(x for x in (8, 4, 2, 1) if depth % x == 0)
    blocks, block, heads, _ = keys.values.shape
    turned = keys.values.reshape(blocks, block, heads, depth // part, part).transpose(0, 2, 3, 1, 4)
    caches = (
        Values(turned.copy(), is_float=keys.is_float, grad=False),
        Values(values.values.transpose(0, 2, 3, 1).copy(), is_float=keys.is_float, grad=False),
    )
    kind = "auto" if keys.is_float else "fp8"
    out = draw.floats(query.values.shape, layout="contiguous", grad=False)
    numbers = (heads, 0.25, tables, lengths, block, int(lengths.values.max()))
    scales = (named.get("k_scale", 1.0), named.get("v_scale", 1.0))
    return Sample((out, query, *caches, *numbers, named.get("alibi_slopes"), kind, *scales))


def _parts(sample: Sample) -> tuple[Any, dict[str, Any]]:
    return sample.arguments, sample.named

"""Fuzzed cases of paged_attention, and the op in plain torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.health.cases.base.attention import reference as plain
from metalcore.health.draw import Draw, Sample, Values


def rows_of(cache: Any, table: Any, length: int, scale: float) -> Any:
    """The first rows of a sequence out of a cache, in plain torch."""
    import torch

    rows = cache[table[: -(-length // cache.shape[1])].long()].flatten(0, 1)[:length]
    return rows.view(torch.float8_e4m3fn).float() * scale if rows.dtype == torch.uint8 else rows


def reference(query: Any, key_cache: Any, value_cache: Any, block_tables: Any, seq_lens: Any, **named: Any) -> Any:
    """Gathered, then sequence by sequence."""
    import torch

    given = named.pop("cu_seqlens_q", None)
    starts = range(query.shape[0] + 1) if given is None else given.tolist()
    scales = (named.pop("k_scale", 1.0), named.pop("v_scale", 1.0))
    named["window_size"] = (named.get("window_size", (-1, -1))[0], 0)
    found = []
    for s, length in enumerate(seq_lens.tolist()):
        q = query[starts[s] : starts[s + 1]].transpose(0, 1)
        caches = (key_cache, value_cache)
        k, v = (rows_of(c, block_tables[s], length, x).transpose(0, 1) for c, x in zip(caches, scales, strict=True))
        out, _ = plain(q, k.to(q.dtype) if k.dtype != torch.float32 else k, v, **named)
        found.append(out.transpose(0, 1))
    return torch.cat(found) if found else query.new_empty(0, query.shape[1], value_cache.shape[-1])


def samples(draw: Draw) -> Sample:
    return draw_paged(draw, draw.choice((8, 16, 5, 1)))


def draw_paged(draw: Draw, block: int) -> Sample:
    sequences, key_heads = draw.choice((1, 2, 3)), draw.choice((1, 2))
    each = draw.choice((1, 1, 2, 4, 12))
    depth = (64, 33, 8, 1, 128, 80)[draw.index % 6]
    width = depth if draw.chance(0.6) else draw.choice((16, 65))
    is_many = draw.chance(0.5)
    queries = [draw.choice((1, 2, 5, 33)) if is_many else 1 for _ in range(sequences)]
    lengths = [n + draw.choice((0, 1, 30, 65, 130)) for n in queries]
    most = max(-(-n // block) for n in lengths) + draw.choice((0, 2))
    blocks = most * sequences + 1
    order = draw.distinct(most * sequences, blocks, "int64")
    tables = np.asarray(order).reshape(sequences, most).astype(draw.choice(("int32", "int64")))
    kind = draw.choice(("auto", "auto", "auto", "fp8"))
    caches = [
        draw.floats((blocks, block, key_heads, d), layout="contiguous", grad=False)
        if kind == "auto"
        else Values(
            np.asarray(draw.integers((blocks, block, key_heads, d), 0, 119, "uint8").values), is_float=False, grad=False
        )
        for d in (depth, width)
    ]
    named: dict[str, Any] = {"k_scale": 0.5, "v_scale": 0.25} if kind == "fp8" else {}
    if kind == "auto":  # what no sequence uses holds anything
        used = np.zeros((blocks, block), bool)
        for row, n in zip(tables, lengths, strict=True):
            used.reshape(-1)[(row[:, None] * block + np.arange(block)).reshape(-1)[:n]] = True
        caches = [Values(np.where(used[..., None, None], c.values, np.nan), grad=False) for c in caches]
    if is_many:
        named["cu_seqlens_q"] = Values(np.cumsum([0, *queries]).astype("int32"), is_float=False, grad=False)
    heads = key_heads * each
    if draw.chance(0.3):
        named["window_size"] = (draw.choice((0, 7, 40)), -1)
    if draw.chance(0.2):
        named["softcap"] = 20.0
    if draw.chance(0.25):
        named["alibi_slopes"] = draw.floats((heads,), 0.01, 0.5, layout="contiguous", grad=False)
    if draw.chance(0.25):
        named["sinks"] = draw.floats((heads,), -2.0, 2.0, layout="contiguous", grad=False)
    query = draw.floats((sum(queries), heads, depth), grad=False)
    given = (tables, np.asarray(lengths, "int32"))
    indices = (Values(np.asarray(x), is_float=False, grad=False) for x in given)
    return Sample((query, *caches, *indices), named)

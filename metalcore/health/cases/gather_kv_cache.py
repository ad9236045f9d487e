"""Fuzzed cases of gather_kv_cache, and the op in plain torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.health.draw import Draw, Sample, Values
from metalcore.ops.base.index import INDEX_TYPES
from metalcore.ops.base.op import FLOATS


def reference(key_cache: Any, value_cache: Any, block_tables: Any, seq_lens: Any, **named: Any) -> Any:
    import torch

    found = []
    for cache, scale in ((key_cache, "k_scale"), (value_cache, "v_scale")):
        rows = [cache[:0].flatten(0, 1)]
        for table, length in zip(block_tables.long(), seq_lens.tolist(), strict=True):
            used = table[: -(-length // cache.shape[1])]
            rows.append(cache[used].flatten(0, 1)[:length])
        together = torch.cat(rows)
        if cache.dtype == torch.uint8:
            kind = getattr(torch, named["dtype"])
            together = (together.view(torch.float8_e4m3fn).float() * named[scale]).to(kind)
        found.append(together)
    return tuple(found)


def samples(draw: Draw) -> Sample:
    longest, heads, dim = draw.size(most=130), draw.choice((1, 2, 3)), draw.choice((1, 8, 31, 64))
    value_dim, block_size = draw.choice((dim, 1, 33)), draw.choice((1, 3, 16))
    lengths = [longest, *(draw.choice((0, 1, 5, longest)) for _ in range(draw.choice((0, 1, 6))))]
    blocks, most = draw.choice((1, 4, 40)), -(-max(*lengths, 1) // block_size) + draw.choice((0, 2))
    kind = draw.choice(INDEX_TYPES)
    tables = draw.integers((len(lengths), most), 0, blocks - 1, kind, "contiguous").values
    for table, length in zip(tables, lengths, strict=True):
        table[-(-length // block_size) :] = -7  # never looked at
    seq_lens = np.asarray(lengths, draw.choice(INDEX_TYPES))
    named: dict[str, Any] = {"total": sum(lengths)}
    caches = [draw.floats((blocks, block_size, heads, d), grad=False) for d in (dim, value_dim)]
    if draw.chance(0.4):
        caches = [draw.integers(tuple(c.values.shape), 0, 126, "uint8") for c in caches]
        named |= {"dtype": draw.choice(FLOATS), "k_scale": draw.choice((1.0, 0.25)), "v_scale": 2.5}
    indices = [Values(a, is_float=False, grad=False) for a in (tables, seq_lens)]
    return Sample((*caches, *indices), named)

"""Fuzzed cases of flash_attn_varlen_func, and the op in plain torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.health.cases.base.attention import reference as plain
from metalcore.health.draw import Draw, Sample, Values


def reference(q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, *_: int, **named: Any) -> Any:
    """Sequence by sequence."""
    import torch

    found = []
    scale, slopes, softcap = named.get("softmax_scale"), named.get("alibi_slopes"), named.get("softcap", 0.0)
    left, right = named.get("window_size", (-1, -1))
    window = (left, 0 if named.get("causal") else right)
    a, b = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for s in range(len(a) - 1):
        query = q[a[s] : a[s + 1]].transpose(0, 1)
        key, value = (x[b[s] : b[s + 1]].transpose(0, 1) for x in (k, v))
        own = slopes if slopes is None or slopes.ndim == 1 else slopes[s]
        out, _ = plain(query, key, value, scale=scale, softcap=softcap, window_size=window, alibi_slopes=own)
        found.append(out.transpose(0, 1))
    return torch.cat(found) if found else q.new_zeros(0, q.shape[1], v.shape[2])


def samples(draw: Draw) -> Sample:
    lengths = (0, 1, 31, 33, 65, 7, 128)
    sequences = draw.choice((1, 2, 3))
    queries = [lengths[(draw.index + s) % 7] for s in range(sequences)]
    keys = queries if draw.chance(0.6) else [draw.choice(lengths) for _ in range(sequences)]
    depth = (64, 33, 8, 1, 128, 80, 17)[draw.index % 7]
    width, heads = depth if draw.chance(0.6) else draw.choice((16, 65)), draw.choice((1, 2))
    each = draw.choice((1, 1, 2, 4))
    # Not expanded: of keys that are all the same, the gradient of a query is 0 and rounding is all that is left.
    layouts = ("contiguous", "transposed", "sliced")
    q = draw.floats((sum(queries), heads * each, depth), layout=draw.choice(layouts))
    k, v = (draw.floats((sum(keys), heads, d), layout=draw.choice(layouts)) for d in (depth, width))
    kind = draw.choice(("int32", "int64"))
    starts = [Values(np.cumsum([0, *n]).astype(kind), is_float=False, grad=False) for n in (queries, keys)]
    named: dict[str, Any] = {"causal": draw.chance(0.5)}
    if draw.chance(0.3):
        named["window_size"] = (draw.choice((-1, 0, 40)), draw.choice((-1, 0, 7)))
    if draw.chance(0.2):
        named["softcap"] = 20.0
    if draw.chance(0.3):
        shape = draw.choice(((heads * each,), (sequences, heads * each)))
        named["alibi_slopes"] = draw.floats(shape, 0.01, 0.5, layout="contiguous", grad=False)
    return Sample((q, k, v, *starts, max(queries), max(keys)), named)

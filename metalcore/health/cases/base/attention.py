"""Attention in plain torch: the truth in float64, and in the op's own dtype what torch's MATH does, with what torch's
function does not have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def reference(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    window_size: tuple[int, int] = (-1, -1),
    alibi_slopes: Any = None,
    sinks: Any = None,
    kept: Any = None,
    dropout_p: float = 0.0,
) -> tuple[Any, Any]:
    """Result and logarithm of the sums for (..., heads, rows, depth). `kept`: which weights dropout leaves.

    Half precision is computed in float32 and rounded at the end, as MATH does it.
    """
    import torch

    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v = query.to(wide), key.to(wide), value.to(wide)
    each = q.shape[-3] // max(1, k.shape[-3])
    if each != 1:
        k, v = k.repeat_interleave(each, -3), v.repeat_interleave(each, -3)
    queries, keys = q.shape[-2], k.shape[-2]
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = (q @ k.transpose(-1, -2)) * scale
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    i, j = torch.arange(queries)[:, None], torch.arange(keys)[None, :]
    shift = keys - queries
    if alibi_slopes is not None:
        scores = scores - alibi_slopes.to(wide)[..., :, None, None] * (i + shift - j).abs()
    seen = torch.ones(queries, keys, dtype=torch.bool)
    seen = seen & (j <= i) if is_causal else seen
    seen = seen & (j >= i + shift - window_size[0]) if window_size[0] >= 0 else seen
    seen = seen & (j <= i + shift + window_size[1]) if window_size[1] >= 0 else seen
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        seen = seen & attn_mask
    elif attn_mask is not None:
        scores = scores + attn_mask.to(wide)
    scores = scores.masked_fill(~seen, -math.inf)
    if sinks is not None:
        column = sinks.to(wide)[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
    is_empty = (
        (scores == -math.inf).all(-1, keepdim=True) if scores.shape[-1] else torch.ones_like(scores.sum(-1, True))
    )
    is_empty = is_empty.bool()
    weights = torch.softmax(scores.masked_fill(is_empty, 0.0), -1).masked_fill(is_empty, 0.0)[..., :keys]
    lse = torch.logsumexp(scores.masked_fill(is_empty, 0.0), -1).masked_fill(is_empty[..., 0], -math.inf)
    if kept is not None:
        weights = torch.where(kept, weights / (1.0 - dropout_p), 0.0)
    # A weight of 0 takes nothing of a value that is no number.
    return (weights @ v).to(query.dtype), lse


def kept_by_dropout(seed: int, heads: int, queries: int, keys: int, probability: float) -> Any:
    """Which weights stay, (heads, queries, keys) with the heads of the whole batch: Philox4x32-10 as the kernels have
    it, in NumPy."""
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    head, query, block = np.meshgrid(
        *(np.arange(n, dtype=np.uint64) for n in (heads, queries, -(-keys // 4))), indexing="ij"
    )
    counter = [block, query, head, np.zeros_like(head)]
    bits = seed % (1 << 64)
    first, second = bits & 0xFFFFFFFF, bits >> 32
    for _ in range(10):
        a, b = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        counter = [
            (b >> high) ^ counter[1] ^ np.uint64(first),
            b & low,
            (a >> high) ^ counter[3] ^ np.uint64(second),
            a & low,
        ]
        first, second = (first + 0x9E3779B9) & 0xFFFFFFFF, (second + 0xBB67AE85) & 0xFFFFFFFF
    words = np.stack(counter, -1).reshape(heads, queries, -1)[..., :keys]
    return words >= np.uint64(int(np.float32(probability) * np.float32(4294967296.0)))

"""Fuzzed cases of scaled_dot_product_attention, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.base.attention import reference as plain
from metalcore.health.cases.base.attention_samples import draw_case
from metalcore.health.draw import Draw, Sample


def reference(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float = 0.0,
    window_size: tuple[int, int] = (-1, -1),
    alibi_slopes: Any = None,
    sinks: Any = None,
    return_lse: bool = False,
) -> Any:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    own = window_size != (-1, -1) or alibi_slopes is not None or sinks is not None or softcap > 0 or return_lse
    # Of no elements torch's function has no gradient of a mask.
    if not own and not (is_causal and attn_mask is not None) and query.ndim > 2 and query.numel() and key.numel():
        with sdpa_kernel(SDPBackend.MATH):
            return torch.nn.functional.scaled_dot_product_attention(
                query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa
            )
    q, k, v = (x[None] if x.ndim == 2 else x for x in (query, key, value))
    out, lse = plain(
        q,
        k,
        v,
        attn_mask,
        is_causal,
        scale=scale,
        softcap=softcap,
        window_size=window_size,
        alibi_slopes=alibi_slopes,
        sinks=sinks,
    )
    out, lse = (out[0], lse[0]) if query.ndim == 2 else (out, lse)
    return (out, lse) if return_lse else out


def samples(draw: Draw) -> Sample:
    return draw_case(draw)

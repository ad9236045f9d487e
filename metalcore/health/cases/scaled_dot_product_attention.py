"""Fuzzed cases of scaled_dot_product_attention, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.base.attention import reference as plain
from metalcore.health.cases.base.attention_samples import draw_case
from metalcore.health.draw import Draw, Sample


def reference(
    query: Any, key: Any, value: Any, attn_mask: Any = None, *, enable_gqa: bool = False, **named: Any
) -> Any:
    """torch's own function, or the plain form where there is what torch does not have."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return_lse = named.pop("return_lse", False)
    if named.get("window_size") == (-1, -1):
        del named["window_size"]
    own = return_lse or not named.keys() <= {"is_causal", "scale"}
    own = own or (named.get("is_causal") and attn_mask is not None)
    # Of no elements torch's function has no gradient of a mask.
    if not own and query.ndim > 2 and query.numel() and key.numel():
        with sdpa_kernel(SDPBackend.MATH):
            return torch.nn.functional.scaled_dot_product_attention(
                query, key, value, attn_mask, enable_gqa=enable_gqa, **named
            )
    q, k, v = (x[None] if x.ndim == 2 else x for x in (query, key, value))
    out, lse = plain(q, k, v, attn_mask, **named)
    out, lse = (out[0], lse[0]) if query.ndim == 2 else (out, lse)
    return (out, lse) if return_lse else out


def samples(draw: Draw) -> Sample:
    return draw_case(draw)

"""Fuzzed cases of rope, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample
from metalcore.ops.base.index import INDEX_TYPES


def reference(
    q: Any, k: Any, cos: Any, sin: Any, position_ids: Any = None, interleaved: bool = False, rotary_dim: Any = None
) -> tuple[Any, Any]:
    import torch

    width, dim = cos.shape[-1], q.shape[-1]
    rot = rotary_dim if rotary_dim is not None else dim if 2 * width == dim else width
    if position_ids is not None:
        cos, sin = cos[position_ids.long()], sin[position_ids.long()]
    if width != rot and interleaved:
        cos, sin = cos.repeat_interleave(2, dim=-1), sin.repeat_interleave(2, dim=-1)
    elif width != rot:
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
    if cos.ndim == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)

    def turned(x: Any) -> Any:
        part = x[..., :rot]
        if interleaved:
            other = torch.stack((-part[..., 1::2], part[..., ::2]), dim=-1).flatten(-2)
        else:
            other = torch.cat((-part[..., rot // 2 :], part[..., : rot // 2]), dim=-1)
        done = (part * cos + other * sin).to(x.dtype)
        return done if rot == dim else torch.cat((done, x[..., rot:]), dim=-1)

    return turned(q), turned(k)


def samples(draw: Draw) -> Sample:
    tokens = draw.size(most=130)
    batch, k_heads = draw.choice((0, 1, 1, 2)), draw.choice((1, 1, 2, 3))
    dim = 2 * draw.choice((1, 3, 8, 31, 33, 64))
    rot = dim if draw.chance(0.6) else 2 * draw.integer(0, dim // 2)
    width = rot // 2 if rot and draw.chance(0.5) else rot
    shape = draw.choice([(tokens,), (batch, tokens)])
    ids = None
    if draw.chance(0.5):
        rows = draw.choice((1, 7, 200))
        ids, shape = draw.integers(shape, 0, rows - 1, draw.choice(INDEX_TYPES)), (rows,)
    tables = [draw.floats((*shape, width), -1.0, 1.0, grad=False) for _ in range(2)]
    q = draw.floats((batch, k_heads * draw.choice((1, 4)), tokens, dim))
    return Sample((q, draw.floats((batch, k_heads, tokens, dim)), *tables, ids, draw.chance(0.5), rot))

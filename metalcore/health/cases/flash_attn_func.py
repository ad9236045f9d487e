"""Fuzzed cases of flash_attn_func, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.base.attention import reference as plain
from metalcore.health.cases.base.attention_samples import DEPTHS, LENGTHS
from metalcore.health.draw import Draw, Sample


def reference(
    q: Any, k: Any, v: Any, *, causal: bool = False, window_size: tuple[int, int] = (-1, -1), **named: Any
) -> Any:
    query, key, value = (x.transpose(1, 2) for x in (q, k, v))
    window = (window_size[0], 0 if causal else window_size[1])
    out, _ = plain(query, key, value, window_size=window, **named)
    return out.transpose(1, 2)


def samples(draw: Draw) -> Sample:
    queries, depth = LENGTHS[draw.index % len(LENGTHS)], DEPTHS[(draw.index * 5 + 1) % len(DEPTHS)]
    keys = queries if draw.chance(0.5) else draw.choice(LENGTHS)
    heads = draw.choice((1, 2, 3))
    each, width = draw.choice((1, 1, 2, 4)), depth if draw.chance(0.7) else draw.choice(DEPTHS)
    q = draw.floats((2, queries, heads * each, depth))
    k, v = draw.floats((2, keys, heads, depth)), draw.floats((2, keys, heads, width))
    named: dict[str, Any] = {"causal": draw.chance(0.5)}
    if draw.chance(0.3):
        named["window_size"] = (draw.choice((-1, 0, 5, 40)), draw.choice((-1, 0, 7)))
    if draw.chance(0.2):
        named["softcap"] = 20.0
    if draw.chance(0.3):
        shape = draw.choice(((heads * each,), (2, heads * each)))
        named["alibi_slopes"] = draw.floats(shape, 0.01, 0.5, layout="contiguous", grad=False)
    return Sample((q, k, v), named)

"""Fuzzed cases of attention: every feature with shapes of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.health.draw import Draw, Sample, Values

FEATURES = ("plain", "causal", "mask", "bias", "gqa", "window", "softcap", "alibi", "sinks", "lse", "wide")
LENGTHS = (1, 2, 31, 33, 65, 32, 97, 5, 128, 0, 64, 130)
DEPTHS = (1, 8, 31, 33, 64, 16, 65, 80, 3, 128, 7, 32)


def draw_case(draw: Draw) -> Sample:
    """Case i has the feature i % 11, and others beside it now and then."""
    feature = FEATURES[draw.index % len(FEATURES)]
    return case_of(draw, {feature, *(f for f in FEATURES if draw.chance(0.12))})


def case_of(draw: Draw, features: set[str]) -> Sample:
    queries, depth = LENGTHS[(draw.index * 5 + 3) % len(LENGTHS)], DEPTHS[(draw.index * 7 + 2) % len(DEPTHS)]
    keys = queries if draw.chance(0.5) else draw.choice(LENGTHS)
    width = depth if draw.chance(0.6) else draw.choice(DEPTHS)
    if "wide" in features:
        depth, width = draw.choice(((256, 256), (200, 129), (160, 3), (192, 128)))
    # A sink has one number of gradient for a head: of one or two, torch's own error may happen to be near nothing.
    key_heads = draw.choice((4, 5, 8) if "sinks" in features else (1, 2, 3))
    each = draw.choice((2, 4)) if "gqa" in features else 1
    leading: tuple[int, ...] = draw.choice(((1,), (2,), (), (2, 1)))
    heads = key_heads * each
    query = draw.floats((*leading, heads, queries, depth))
    key = draw.floats((*leading, key_heads, keys, depth))
    value = draw.floats((*leading, key_heads, keys, width))
    named: dict[str, Any] = {"enable_gqa": True} if each > 1 else {}
    full = (*leading, heads, queries, keys)
    mask = None
    if "mask" in features or "bias" in features:
        shape = tuple(n if draw.chance(0.7) else 1 for n in full)[draw.integer(0, len(full) - 2) :]
        if "mask" in features:
            seen = draw.integers(shape, 0, 3).values > 0
            mask = Values(seen, "contiguous", is_float=False, grad=False)
        else:
            # One number for all keys of a row has the gradient 0, of which rounding is all that is left.
            mask = draw.floats(shape, grad=draw.chance(0.7) and shape[-1] > 1)
            if mask.values.size > 4 and draw.chance(0.4):  # some are masked by -infinity, and have no gradient then
                values = mask.values.copy()
                values.reshape(-1)[::3] = -np.inf
                mask = Values(values, "contiguous", grad=False)
    if "causal" in features:
        named["is_causal"] = True
    if "window" in features:
        named["window_size"] = (draw.choice((-1, 0, 3, 40)), draw.choice((-1, 0, 7)))
    if "softcap" in features:
        named["softcap"] = draw.choice((1.5, 30.0))
    if "alibi" in features:
        named["alibi_slopes"] = draw.floats((heads,), 0.01, 0.5, layout="contiguous", grad=False)
    if "sinks" in features:
        named["sinks"] = draw.floats((heads,), -2.0, 2.0, layout="contiguous")
    if "lse" in features:
        named["return_lse"] = True
    if draw.chance(0.3):
        named["scale"] = draw.choice((0.125, 1.0))  # held exactly by every dtype, as all inputs are
    return Sample((query, key, value, mask), named)

"""Softmax and log_softmax in plain torch, with a mask or causal, and their fuzzed cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from metalcore.health.draw import Draw, Sample, Values


def reference_of(noun: str) -> Callable[..., Any]:
    """Of softmax or log_softmax."""

    def reference(input: Any, dim: int, *, dtype: Any = None, mask: Any = None, causal: bool = False) -> Any:
        import torch

        return getattr(torch.nn.functional, noun)(hide(input, mask, causal), dim, dtype=dtype)

    return reference


def hide(input: Any, mask: Any, causal: bool) -> Any:
    """What a user of torch would write in front of softmax."""
    import torch

    if mask is not None:
        input = input + mask
    if not causal:
        return input
    queries, keys = input.shape[-2:]
    hidden = torch.ones(queries, keys, dtype=torch.bool, device=input.device).triu(keys - queries + 1)
    return input.masked_fill(hidden, -math.inf)


def samples(draw: Draw) -> Sample:
    """Any dimension; half of the cases with a mask that hides some places, or causal; never a row hidden throughout."""
    n = draw.size()
    shape = [*draw.leading(), n]
    dim = draw.integer(-len(shape), len(shape) - 1)
    if draw.chance(0.4):
        shape[dim], shape[-1] = shape[-1], shape[dim]
    named: dict[str, Any] = {}
    if draw.chance(0.3) and len(shape) >= 2 and shape[-1] >= shape[-2] and dim in (-1, len(shape) - 1):
        named["causal"] = True
    if draw.chance(0.4):
        named["mask"] = _mask(draw, shape, dim)
    if draw.chance(0.2):
        named["dtype"] = None
    return Sample((draw.floats(tuple(shape), -6.0, 6.0), dim), named)


def _mask(draw: Draw, shape: Sequence[int], dim: int) -> Values:
    own = [1 if draw.chance(0.3) else size for size in shape]
    found = draw.floats(tuple(own[draw.integer(0, len(own)) if draw.chance(0.3) else 0 :]))
    values = found.values.copy()
    walks = len(values.shape) - len(shape) + (dim % len(shape))
    if walks >= 0 and values.size and values.shape[walks] > 1 and draw.chance(0.6):
        hidden = draw.floats(values.shape).values > 1.0
        hidden[(slice(None),) * walks + (0,)] = False
        values[hidden] = -math.inf
    # A number that is added to a whole row changes nothing: its gradient is 0 but for roundings.
    return Values(values, found.layout, grad=walks >= 0 and values.shape[walks] > 1)

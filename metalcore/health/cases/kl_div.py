"""Fuzzed cases of kl_div, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample, Values
from metalcore.ops.kl_div import REDUCTIONS


def reference(input: Any, target: Any, **named: Any) -> Any:
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of "mean"
        return torch.nn.functional.kl_div(input, target, **named)


def samples(draw: Draw) -> Sample:
    shape = (*draw.leading(), draw.size())
    x = draw.floats(shape, -6.0, 0.0)
    log_target = draw.chance(0.4)
    if log_target:
        target = draw.floats(shape, -6.0, 0.0, grad=draw.chance(0.5))
    elif draw.chance(0.3):  # zeros, which have no gradient
        values = draw.floats(shape, 0.0, 1.0)
        target = Values(values.values * (values.values > 0.3), values.layout, grad=False)
    else:
        target = draw.floats(shape, 0.01, 1.0, grad=draw.chance(0.5))
    return Sample((x, target), {"reduction": draw.choice(REDUCTIONS), "log_target": log_target})

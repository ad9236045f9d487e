"""Fuzzed cases of matmul_int8, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample


def reference(x: Any, weight_int8: Any, scales: Any) -> Any:
    if scales.ndim == 2:
        scales = scales.repeat_interleave(weight_int8.shape[1] // scales.shape[1], 1)
    else:
        scales = scales[:, None]
    return x @ (weight_int8.to(scales.dtype) * scales).T


def samples(draw: Draw) -> Sample:
    groups = draw.choice((0, 1, 2, 3))  # 0: a vector of scales
    width = draw.size(most=300) * max(1, groups)
    outs = draw.choice((0, 1, 5, 31, 33, 64, 97))
    weight = draw.integers((outs, width), -128, 127, "int8")
    scales = draw.floats((outs, groups) if groups else (outs,), 0.01, 0.1, grad=False)
    return Sample((draw.floats((*draw.leading(), width)), weight, scales))

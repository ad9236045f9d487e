"""Fuzzed cases of dequantize_int4, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample


def reference(packed: Any, scales: Any, zeros: Any, group_size: int) -> Any:
    import torch

    codes = torch.stack([packed & 15, packed >> 4], -1).flatten(1).to(scales.dtype)
    width = codes.shape[1]
    by_column = (a.repeat_interleave(group_size, 1)[:, :width] for a in (zeros, scales))
    return (codes - next(by_column)) * next(by_column)


def draw_packed(draw: Draw, outs: int, width: int) -> tuple[Any, ...]:
    """Packed numbers, scales, zeros and a size of groups."""
    group_size = draw.choice((2, 16, 32, 64, 66, 128))
    shape = outs, -(-width // group_size)
    packed = draw.integers((outs, width // 2), 0, 255, "uint8")
    scales, zeros = draw.floats(shape, 0.01, 0.1, grad=False), draw.floats(shape, 0.0, 15.0, grad=False)
    return packed, scales, zeros, group_size


def samples(draw: Draw) -> Sample:
    width = 2 * draw.size(most=600)
    return Sample(draw_packed(draw, draw.choice((0, 1, 2, 7, 33)), width))

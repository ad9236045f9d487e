"""Fuzzed cases of matmul_int4, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.dequantize_int4 import draw_packed
from metalcore.health.cases.dequantize_int4 import reference as dequantized
from metalcore.health.draw import Draw, Sample


def reference(x: Any, packed: Any, scales: Any, zeros: Any, group_size: int) -> Any:
    return x @ dequantized(packed, scales, zeros, group_size).T


def samples(draw: Draw) -> Sample:
    width = 2 * draw.size(most=300)
    x = draw.floats((*draw.leading(), width))
    return Sample((x, *draw_packed(draw, draw.choice((0, 1, 5, 31, 33, 64, 97)), width)))

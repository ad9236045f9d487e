"""Fuzzed cases of metalcore.linalg, family norm, and its ops in plain torch."""

from __future__ import annotations

import math

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample


def samples(draw: Draw) -> Sample:
    shape = (*draw.leading(least=1), draw.size(least=1))
    shape = tuple(max(1, size) for size in shape)
    ord = draw.choice((2, 2, 1, 0, math.inf, -math.inf, 3, 0.5, -1, 2.5))
    dims = draw.choice((None, -1, 0, tuple(range(len(shape))), (0, len(shape) - 1)))
    return Sample((draw.floats(shape, grad=ord != 0), ord, dims, draw.chance(0.3)))


CASES = {
    "linalg_vector_norm": Case(of_torch("linalg.vector_norm"), samples),
}

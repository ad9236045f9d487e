"""Fuzzed cases of metalcore.precise, family matmul, and its ops in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases import Case
from metalcore.health.draw import Draw, Sample
from metalcore.ops.precise.base.reduce import PRECISIONS


def reference(a: Any, b: Any, *, precision: str = "float-float") -> Any:
    return a @ b


def samples(draw: Draw) -> Sample:
    m, k, n = draw.size(most=130), draw.size(most=130), draw.size(most=130)
    leading = draw.choice(((), (), (1,), (3,), (2, 2), (0,)))
    shapes = [(*leading, m, k), (*leading, k, n)]
    if draw.chance(0.3):
        side = draw.integer(0, 1)
        shapes[side] = shapes[side][-2:]
    precision = draw.choice(PRECISIONS)
    return Sample((draw.floats(shapes[0]), draw.floats(shapes[1])), {"precision": precision})


CASES = {
    "precise_matmul": Case(reference, samples),
}

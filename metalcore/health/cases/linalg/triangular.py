"""Fuzzed cases of metalcore.linalg, family triangular, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample, Values


def samples(draw: Draw) -> Sample:
    n, sides, leading = draw.size(most=130), draw.choice((0, 1, 3, 33)), draw.leading(most=1)
    left, unit = draw.chance(0.5), draw.chance(0.5)
    a = draw.floats((*leading, n, n), -1.0, 1.0, layout=draw.choice(("contiguous", "transposed", "sliced")))
    values = a.values.copy() / max(n, 1)  # a well-conditioned triangle
    for i in range(n):
        values[..., i, i] = 1 + values[..., i, i] * n / 2
    b = draw.floats((*leading, *((n, sides) if left else (sides, n))))
    given = {"upper": draw.chance(0.5), "left": left, "unitriangular": unit}
    return Sample((Values(values.astype("float32").astype(float), a.layout), b), given)


CASES = {
    "linalg_solve_triangular": Case(of_torch("linalg.solve_triangular"), samples),
}

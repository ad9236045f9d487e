"""Fuzzed cases of metalcore.linalg, family solve, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample


def samples(draw: Draw) -> Sample:
    n, sides, left = draw.size(most=65), draw.choice((1, 2, 5, 33)), draw.chance(0.6)
    leading = draw.leading(most=1)
    a = draw.floats((*leading, n, n))
    for i in range(n):
        a.values[..., i, i] += 2.0 * n  # far from singular
    shape = (*leading, n) if left and draw.chance(0.3) else (*leading, n, sides) if left else (*leading, sides, n)
    return Sample((a, draw.floats(shape)), {"left": left})


CASES = {
    "linalg_solve": Case(of_torch("linalg.solve"), samples),
    "linalg_solve_ex": Case(of_torch("linalg.solve_ex"), samples),
}

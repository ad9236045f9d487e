"""Fuzzed cases of metalcore.linalg, family matmul, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample


def samples(draw: Draw) -> Sample:
    rows, depth, columns = draw.size(most=257), draw.size(most=257), draw.size(most=130)
    leading = draw.leading(most=2)
    first = leading if draw.chance(0.7) else ()
    second = leading if first == () or draw.chance(0.7) else ()
    return Sample((draw.floats((*first, rows, depth)), draw.floats((*second, depth, columns))))


CASES = {
    "linalg_matmul": Case(of_torch("matmul"), samples),
}

"""Fuzzed cases of metalcore.linalg, family svd, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample


def samples(draw: Draw) -> Sample:
    rows, columns = draw.size(most=65), draw.size(most=65)
    return Sample((draw.floats((*draw.leading(most=1), rows, columns)),), {"full_matrices": draw.chance(0.5)})


def samples_values(draw: Draw) -> Sample:
    return Sample((draw.floats((*draw.leading(most=1), draw.size(most=65), draw.size(most=65))),))


CASES = {
    "linalg_svd": Case(of_torch("linalg.svd"), samples),
    "linalg_svdvals": Case(of_torch("linalg.svdvals"), samples_values),
}

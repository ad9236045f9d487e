"""Fuzzed cases of metalcore.linalg, family lowrank, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample


def samples(draw: Draw) -> Sample:
    rows, columns = draw.size(least=1, most=65), draw.size(least=1, most=65)
    A = draw.floats((*draw.leading(most=1), rows, columns))
    return Sample((A,), {"q": draw.integer(1, min(rows, columns, 8)), "niter": draw.integer(0, 2)})


CASES = {
    "linalg_svd_lowrank": Case(of_torch("svd_lowrank"), samples),
}

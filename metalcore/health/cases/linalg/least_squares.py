"""Fuzzed cases of metalcore.linalg, family least_squares, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample
from metalcore.ops.linalg.least_squares import DRIVERS


def samples(draw: Draw) -> Sample:
    rows, columns = draw.size(most=33), draw.size(most=33)
    return Sample((draw.floats((*draw.leading(most=1), rows, columns)),), {"rtol": draw.choice((None, 1e-3))})


def samples_lstsq(draw: Draw) -> Sample:
    rows, columns = draw.size(least=1, most=33), draw.size(least=1, most=33)
    leading = draw.leading(most=1)
    A, B = draw.floats((*leading, rows, columns)), draw.floats((*leading, rows, draw.integer(1, 3)))
    return Sample((A, B), {"driver": draw.choice(DRIVERS)})


CASES = {
    "linalg_pinv": Case(of_torch("linalg.pinv"), samples),
    "linalg_matrix_rank": Case(of_torch("linalg.matrix_rank"), samples),
    "linalg_lstsq": Case(of_torch("linalg.lstsq"), samples_lstsq),
}

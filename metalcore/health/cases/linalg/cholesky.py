"""Fuzzed cases of metalcore.linalg, family cholesky, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample


def samples(draw: Draw) -> Sample:
    n = draw.size(most=33)
    half = draw.floats((*draw.leading(most=1), n, n))
    values = half.values @ half.values.swapaxes(-1, -2)
    return Sample((type(half)(values, half.layout),), {"upper": draw.chance(0.5)})


CASES = {
    "linalg_cholesky": Case(of_torch("linalg.cholesky"), samples),
    "linalg_cholesky_ex": Case(of_torch("linalg.cholesky_ex"), samples),
}

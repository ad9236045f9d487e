"""Fuzzed cases of metalcore.linalg, family householder, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample


def geqrf_samples(draw: Draw) -> Sample:
    return Sample((draw.floats((*draw.leading(most=1), draw.size(most=33), draw.size(most=33))),))


def product_samples(draw: Draw) -> Sample:
    columns, leading = draw.size(least=1, most=33), draw.leading(most=1)
    rows, reflectors = columns + draw.choice((0, 0, 1, 5)), draw.integer(1, columns)
    return Sample((draw.floats((*leading, rows, columns), -1, 1), draw.floats((*leading, reflectors), 0, 0.5)))


def ormqr_samples(draw: Draw) -> Sample:
    leading, rows, sides = draw.leading(most=1), draw.size(least=1, most=40), draw.size(least=1, most=9)
    columns, left = draw.integer(1, rows), draw.chance(0.5)
    tau = draw.floats((*leading, columns), 0, 0.5)
    other = draw.floats((*leading, rows, sides) if left else (*leading, sides, rows))
    return Sample((draw.floats((*leading, rows, columns), -0.5, 0.5), tau, other, left, draw.chance(0.5)))


CASES = {
    "linalg_geqrf": Case(of_torch("geqrf"), geqrf_samples),
    "linalg_householder_product": Case(of_torch("linalg.householder_product"), product_samples),
    "linalg_ormqr": Case(of_torch("ormqr"), ormqr_samples),
}

"""Fuzzed cases of metalcore.linalg, family lu, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample, Values


def samples(draw: Draw) -> Sample:
    rows = draw.size(most=65)
    columns = rows if draw.chance(0.5) else draw.size(most=65)
    return Sample((draw.floats((*draw.leading(most=1), rows, columns)),))


def samples_solve(draw: Draw) -> Sample:
    n, sides, left = draw.size(most=65), draw.choice((1, 2, 5, 33)), draw.chance(0.5)
    leading = draw.leading(most=1)
    factors = draw.floats((*leading, n, n), -1.0, 1.0, layout="contiguous")
    for i in range(n):
        factors.values[..., i, i] += 4.0 if i % 2 else -4.0  # far from singular
        factors.values[..., i, :i] /= 4 * n
    pivots = Values(
        draw.integers((*leading, n), 0, n, layout="contiguous").values.clip(range(1, n + 1), n).astype("int32"),
        is_float=False,
        grad=False,
    )
    shape = (n, sides) if left else (sides, n)
    named = {"left": left, "adjoint": draw.chance(0.5)}
    return Sample((factors, pivots, draw.floats((*leading, *shape))), named)


CASES = {
    "linalg_lu_factor": Case(of_torch("linalg.lu_factor"), samples),
    "linalg_lu_factor_ex": Case(of_torch("linalg.lu_factor_ex"), samples),
    "linalg_lu": Case(of_torch("linalg.lu"), samples),
    "linalg_lu_solve": Case(of_torch("linalg.lu_solve"), samples_solve),
}

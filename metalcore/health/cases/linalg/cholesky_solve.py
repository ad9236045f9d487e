"""Fuzzed cases of metalcore.linalg, family cholesky_solve, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample, Values


def _factor(draw: Draw) -> Values:
    """A triangle with a diagonal of about 1: well conditioned."""
    n, leading = draw.size(most=97), draw.leading(most=1)
    given = draw.floats((*leading, n, n), -1.0, 1.0, layout=draw.choice(("contiguous", "transposed", "sliced")))
    values = given.values / max(n, 1)
    for i in range(n):
        values[..., i, i] = 1 + values[..., i, i] * n / 2
    return Values(values.astype("float32").astype(float), given.layout)


def samples(draw: Draw) -> Sample:
    factor = _factor(draw)
    b = draw.floats((*factor.values.shape[:-1], draw.choice((0, 1, 3, 33))))
    return Sample((b, factor), {"upper": draw.chance(0.5)})


def samples_inverse(draw: Draw) -> Sample:
    return Sample((_factor(draw),), {"upper": draw.chance(0.5)})


CASES = {
    "linalg_cholesky_solve": Case(of_torch("cholesky_solve"), samples),
    "linalg_cholesky_inverse": Case(of_torch("cholesky_inverse"), samples_inverse),
}

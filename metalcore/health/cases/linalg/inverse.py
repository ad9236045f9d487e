"""Fuzzed cases of metalcore.linalg, family inverse, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample


def samples(draw: Draw) -> Sample:
    n = draw.size(most=65)
    a = draw.floats((*draw.leading(most=1), n, n), -1.0, 1.0)
    for i in range(n):
        a.values[..., i, i] += 4.0 if i % 2 else -4.0
    return Sample((a,))


CASES = {
    "linalg_inv": Case(of_torch("linalg.inv"), samples),
    "linalg_inv_ex": Case(of_torch("linalg.inv_ex"), samples),
    "linalg_det": Case(of_torch("linalg.det"), samples),
    "linalg_slogdet": Case(of_torch("linalg.slogdet"), samples),
}

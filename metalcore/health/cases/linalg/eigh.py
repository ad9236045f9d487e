"""Fuzzed cases of metalcore.linalg, family eigh, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample


def samples(draw: Draw) -> Sample:
    n = draw.size(most=33)
    return Sample((draw.floats((*draw.leading(most=1), n, n)),), {"UPLO": draw.choice("LU")})


CASES = {
    "linalg_eigh": Case(of_torch("linalg.eigh"), samples),
    "linalg_eigvalsh": Case(of_torch("linalg.eigvalsh"), samples),
}
